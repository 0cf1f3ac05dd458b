"""Everything a script does with torch's devices around a kernel."""

import torch
import torch.nn as nn

assert torch.cuda.is_available() and torch.cuda.device_count() == 1
props = torch.cuda.get_device_properties(0)
print(props.name, props.multi_processor_count, torch.cuda.get_device_name(), torch.cuda.get_device_capability())
assert props.multi_processor_count > 0 and len(torch.cuda.get_device_capability()) == 2

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.cuda.set_device(0)
torch.manual_seed(1)
first = torch.randn(4, device=device)
torch.cuda.manual_seed(1)
assert torch.equal(first, torch.randn(4, device=device))

generator = torch.Generator(device="cuda").manual_seed(3)
a = torch.rand(8, device="cuda", generator=generator)
assert torch.equal(a, torch.rand(8, device="cuda", generator=generator.manual_seed(3)))

host = torch.zeros(4)
moved = host.to("cuda:0", non_blocking=True)
moved += 1
assert host.sum() == 0 and moved.is_cuda and not host.is_cuda
assert moved.cuda() is moved and moved.to(device).data_ptr() == moved.data_ptr()
back = moved.cpu()
back += 1
assert moved.sum() == 4 and not back.is_cuda
assert torch.zeros_like(moved).is_cuda and (moved * 2)[1:].is_cuda and moved.half().is_cuda

start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    start.record()
    torch.ones(16, pin_memory=True).pin_memory().to("cuda", torch.float16).record_stream(stream)
    end.record()
stream.wait_stream(torch.cuda.current_stream())
end.synchronize()
assert start.elapsed_time(end) >= 0

with torch.autocast("cuda"):
    assert (torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")).dtype == torch.float16
with torch.cuda.amp.autocast(dtype=torch.bfloat16):
    assert (torch.ones(4, 4).cuda() @ torch.ones(4, 4).cuda()).dtype == torch.bfloat16

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).cuda().half()
assert next(model.parameters()).dtype == torch.float16 and model(moved.half()).shape == (4,)

with torch.device("cuda"):
    assert torch.ones(3).is_cuda and nn.Linear(2, 2)(torch.ones(2)).shape == (2,)
torch.set_default_device("cuda")
assert torch.arange(5).is_cuda and torch.empty(3, dtype=torch.int32).is_cuda
assert torch.nn.functional.interpolate(torch.ones(1, 1, 4), scale_factor=2).is_cuda
torch.set_default_device("cpu")
assert not torch.ones(2).is_cuda
with torch.random.fork_rng():
    torch.cuda.empty_cache()
print("all checks passed")
