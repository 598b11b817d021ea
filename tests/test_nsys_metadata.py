"""Facts about a capture, read from an allow-list."""

import pytest

from export_builder import ExportBuilder, global_pid

PRIVATE = "hf_thisMustNeverBeShown"


@pytest.fixture
def one_kernel(export):
    export.kernel("nvjet_a", 10, 5)
    return export


@pytest.mark.parametrize(
    ("version", "product", "schema"),
    [
        ("2022.4", "2022.4.2.1", "3.0.0"),  # EXPORT_META_DATA
        ("2023.4", "2023.4.4.54", "3.7.2"),  # META_DATA_EXPORT
        ("2026.2", "2026.2.1.210", "3.25.0"),
        ("2020.4", None, None),  # no such table
    ],
)
def test_versions_come_from_whichever_table_has_them(version, product, schema, read):
    export = ExportBuilder(version)
    export.kernel("nvjet_a", 10, 5)
    info = read(export).info
    assert (info.exporter, info.schema) == (product, schema)


@pytest.mark.parametrize("prefix", ["PROCESS_0:", ""])  # up to 2025.5; 2026.2
@pytest.mark.parametrize("mode", ["Node", "Graph"])
def test_the_graph_mode_is_found_by_the_end_of_its_key(prefix, mode, read, one_kernel):
    one_kernel.graph_mode(mode, prefix)
    assert read(one_kernel).info.graph_trace == mode.lower()


def test_the_graph_mode_is_unknown_where_nothing_says_it(read, one_kernel):
    assert read(one_kernel).info.graph_trace == "unknown"


def test_processes_that_disagree_on_the_graph_mode_leave_it_unknown(read, one_kernel):
    one_kernel.graph_mode("Node").graph_mode("Graph", "PROCESS_1:")
    assert read(one_kernel).info.graph_trace == "unknown"


def test_gpu_facts_are_read(read, one_kernel):
    facts = {"memoryBandwidth": 4_800_000_000_000, "totalMemory": 150_000_000_000, "smCount": 132}
    one_kernel.gpu(0, "NVIDIA H200", **facts, computeMajor=9, computeMinor=0)
    (gpu,) = read(one_kernel).info.gpus
    assert (gpu.name, gpu.multiprocessors, gpu.compute_capability) == ("NVIDIA H200", 132, "9.0")
    assert gpu.memory_bandwidth_bytes_per_s == 4_800_000_000_000
    assert gpu.memory_bytes == 150_000_000_000


def test_a_gpu_of_2020_is_known_by_its_other_column(read):
    export = ExportBuilder("2020.4").gpu(3, "Tesla V100")
    export.kernel("nvjet_a", 10, 5)
    (gpu,) = read(export).info.gpus
    assert (gpu.id, gpu.name, gpu.compute_capability) == (3, "Tesla V100", None)


def test_a_gpu_without_a_name_is_not_called_none(read, one_kernel):
    one_kernel.gpu(0, None)
    assert read(one_kernel).info.gpus[0].name == "unknown GPU"


def test_each_process_maps_its_own_device_numbers_to_gpus(read):
    # Tensor-parallel workers with CUDA_VISIBLE_DEVICES each call their GPU device 0.
    export = ExportBuilder("2025.3").gpu(0, "first").gpu(1, "second")
    export.row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=10)
    export.row("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=0, pid=20)
    export.kernel("nvjet_a", 10, 5, pid=10)
    info = read(export).info
    assert info.gpu(global_pid(10), 0).name == "first"
    assert info.gpu(global_pid(20), 0).name == "second"


@pytest.mark.parametrize("column", ["gpuId", "cudaId", "pid"])
def test_a_mapping_that_is_no_number_is_passed_over(column, read, one_kernel):
    one_kernel.gpu(0, "first")
    one_kernel.row(
        "TARGET_INFO_CUDA_DEVICE", **{"gpuId": 0, "cudaId": 0, "pid": 10, column: "text"}
    )
    assert read(one_kernel).info.gpu(global_pid(10), 0).name == "first"


def test_without_a_mapping_the_device_number_is_the_gpu(read, one_kernel):
    one_kernel.gpu(0, "first").gpu(1, "second")
    info = read(one_kernel).info
    assert info.gpu(global_pid(10), 1).name == "second"
    assert info.gpu(global_pid(10), 2) is None


def test_the_devices_own_number_beats_the_row_number(read, one_kernel):
    # NSYS_SCHEMA section 4: without a mapping TARGET_INFO_GPU.cuDevice, else id.
    one_kernel.gpu(0, "display", cuDevice=1).gpu(1, "compute", cuDevice=0)
    assert read(one_kernel).info.gpu(global_pid(10), 0).name == "compute"


def test_process_names_are_read_by_key(read, one_kernel):
    key = global_pid(4242)
    one_kernel.row("PROCESSES", globalPid=key, pid=4242, name="VLLM::Worker_TP0")
    one_kernel.row("PROCESSES", globalPid=global_pid(1), pid=1, name=None)
    assert read(one_kernel).info.process_names == ((key, "VLLM::Worker_TP0"),)


def test_secrets_in_the_capture_never_reach_trace_or_summary(summarize, run_export):
    for key in ("PROCESS_0:ENVIRONMENT_VARIABLE", "PROCESS_0:COMMAND", "PROCESS_0:USER_NAME"):
        run_export.row("META_DATA_CAPTURE", name=key, value=f"HF_TOKEN={PRIVATE}")
    run_export.row("META_DATA_EXPORT", name="EXPORT_PARAM_INPUT_PATH", value=PRIVATE)
    summary = summarize(run_export)
    assert PRIVATE not in repr(summary.info)
    assert PRIVATE not in repr(summary.to_dict())


def test_the_window_ends_where_the_capture_does(read, one_kernel):
    assert read(one_kernel.window(2_000)).info.window_end_ns == 2_000_000


def test_the_window_moves_with_shifted_times(read, one_kernel):
    one_kernel.window(2_000)
    assert read(one_kernel, shift_ns=5_000).info.window_end_ns == 2_005_000


def test_an_export_without_ranges_says_how_to_capture_them(read, one_kernel):
    assert any("-t nvtx" in found.message for found in read(one_kernel).info.findings)


def test_an_export_without_strings_says_so(read, one_kernel):
    findings = read(one_kernel, without=["StringIds"]).info.findings
    assert any("no StringIds" in found.message for found in findings)
