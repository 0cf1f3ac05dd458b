"""Stands in for bisheng: takes its options, as strictly as the release does, and makes of a text with `kernel<<<…>>>` a library by g++."""

import json
import re
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
SETTINGS = json.loads((HOME / "stand_in.json").read_text())
NEEDED = {8: {"-xcce", "--cce-aicore-arch"}, 9: {"-xasc", "--npu-arch"}}[SETTINGS["major"]]
KNOWN = NEEDED | {"-O2", "-std=c++17", "-fPIC", "--shared", "--cce-auto-sync", "-mllvm", "-DTILELANG_ASCEND_SILENT"}
ARITHMETIC = {"-fwrapv", "-ffp-contract=off"}
CORES = {"AIV_ONLY": "aiv_only", "AIC_ONLY": "aic_only", "MIX_AIC_1_2": "mix_1_2"}
SIDES = {"dav-c220-vec": {"aiv_only"}, "dav-c220-cube": {"aic_only"}, "dav-c220": set(CORES.values())}
QUALIFIERS = {"__vector__": "aiv_only", "__cube__": "aic_only", "__mix__(1, 2)": "mix_1_2"}

START = """
namespace stand_in {
template <typename... P, std::size_t... I, typename... A>
void Launch(const char* kind, void (*)(P...), void (*entry)(const int64_t*, int32_t), uint32_t blocks, void* stream, A... a) {
  static_assert(sizeof...(P) == sizeof...(A), "the launch passes a wrong number of arguments");
  const int64_t words[sizeof...(P) + 1] = {tla::twin::ToWord<P>(static_cast<P>(a))..., 0};
  stand_in_launch(kind, blocks, stream, entry, words, sizeof...(P));
}
}  // namespace stand_in
"""


def fail(text: str) -> None:
    sys.exit(f"bisheng: error: {text}")


def kinds_of(text: str) -> dict[str, str]:
    """Kernel -> its kind, as the release lets a text say it."""
    found = {}
    for head, name in re.findall(r'extern "C" __global__ (.*?) void (\w+)\(', text):
        stated = re.search(rf"void {name}\(.*?KERNEL_TASK_TYPE_DEFAULT\(KERNEL_TYPE_(\w+)\)", text, re.S)
        if head == "__aicore__" and stated:
            found[name] = CORES[stated[1]]
        elif head in QUALIFIERS and SETTINGS["major"] >= 9:
            found[name] = QUALIFIERS[head]
        else:
            fail(f"unknown type name '{head.split('(')[0]}'")
    return found


def unit(text: str, arguments: list[str]) -> str:
    """The text for g++: launches become calls of the stand-in of the runtime."""
    if SETTINGS["major"] < 9 and re.search(r"AscendC::LocalTensor<\w+> \w+\(", text):
        fail("no matching constructor for initialization of 'AscendC::LocalTensor'")
    kinds = kinds_of(text)
    arch = next((a.partition("=")[2] for a in arguments if a.startswith("--cce-aicore-arch=")), None)
    if arch is not None and not set(kinds.values()) <= SIDES[arch]:
        fail(f"kernels of kind {kinds} are not built for {arch}")
    head = '#include "kernel_operator.h"\n'
    declared = (
        'extern "C" void stand_in_launch(const char*, uint32_t, void*, void (*)(const int64_t*, int32_t), const int64_t*, int32_t);\n'
    )
    text = text.replace(head, head + "#undef ASCENDC_CPU_DEBUG\n" + declared + START, 1)

    def call(found):
        name, blocks, stream, given = found.groups()
        entry = f"[](const int64_t* args, int32_t n) {{ tla::twin::Invoke({name}, args, n); }}"
        return f'stand_in::Launch("{kinds[name]}", {name}, {entry}, {blocks}, {stream}, {given});'

    return re.sub(r"(\w+)<<<(\w+), nullptr, (\w+)>>>\((.*)\);", call, text)


def main(arguments: list[str]) -> None:
    if arguments == ["--version"]:
        print(f"bisheng {SETTINGS['version']} (stand-in)")
        return
    with (HOME / "compiled.txt").open("a") as log:
        log.write(" ".join(arguments) + "\n")
    options = {a.partition("=")[0] if a.startswith("--") else a for a in arguments if a.startswith("-")}
    unknown = [a for a in options - KNOWN - ARITHMETIC if not a.startswith(("-I", "-L", "-l", "-o", "-Wl,", "-cce-aicore-"))]
    if unknown or not NEEDED <= options:
        fail(f"unsupported option '{next(iter(unknown), 'missing ' + str(NEEDED - options))}'")
    source, output = next(a for a in arguments if a.endswith(".cpp")), arguments[arguments.index("-o") + 1]
    made = Path(source).with_name("unit.cpp")
    made.write_text(unit(Path(source).read_text(), arguments))
    libraries = [a for a in arguments if a.startswith(("-L", "-l", "-Wl,"))]
    defined = [a for a in arguments if a.startswith("-D") or a in ARITHMETIC]
    command = [SETTINGS["cxx"], *SETTINGS["flags"], *defined, str(made), "-o", output, *libraries]
    sys.exit(subprocess.run(command).returncode)


main(sys.argv[1:])
