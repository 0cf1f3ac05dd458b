"""`kernel.profile()` reads the tables of msprof."""

import os

import pytest
from npu_kernels import compiled, scale

from tilelang_ascend.errors import DeviceError

HEADER = "Device_id,Model Name,Op Name,OP Type,Task Duration(us),Task Wait Time(us),Block Dim,aiv_time(us),aiv_vec_time(us),aiv_vec_ratio"


def write(folder, rows, when):
    folder.mkdir(parents=True)
    path = folder / "op_summary_20261123.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    os.utime(path, (when, when))


def test_the_launches_of_a_kernel_in_the_newest_profile(tmp_path):
    kernel = compiled(scale(), backend="sim")
    row = "0,N/A,{},AIV,{},0.5,3,7.25,1.5,0.2"
    write(tmp_path / "PROF_1" / "mindstudio_profiler_output", [row.format("scale_kernel", 99)], 1000)
    rows = [row.format("scale_kernel", 8.25), row.format("Adds_of_torch", 4), row.format("scale_kernel", 8.5).replace("1.5", "N/A")]
    write(tmp_path / "PROF_2" / "mindstudio_profiler_output", rows, 2000)
    first, second = kernel.profile(tmp_path)
    assert (first.kernel, first.duration_us, first.blocks) == ("scale_kernel", 8.25, 3)
    assert first.pipes == {"aiv_time": 7.25, "aiv_vec_time": 1.5} and first.columns["aiv_vec_ratio"] == "0.2"
    assert second.duration_us == 8.5 and second.pipes == {"aiv_time": 7.25}


def test_no_table_and_no_launch_say_how_to_make_one(tmp_path):
    kernel = compiled(scale(), backend="sim")
    with pytest.raises(DeviceError, match=r"no op_summary\*.csv of msprof below") as caught:
        kernel.profile(tmp_path)
    assert f"hint: run the script by msprof --output={tmp_path} python SCRIPT" in str(caught.value)
    write(tmp_path / "PROF_1", ["0,N/A,Adds,AIV,1,0,3,1,1,1"], 1000)
    with pytest.raises(DeviceError, match="has no launch of scale_kernel") as caught:
        kernel.profile(tmp_path)
    assert "it has Adds" in str(caught.value)
