"""The words of the product: the same in code, JSON, rule files, UI and docs."""

from __future__ import annotations

from enum import StrEnum


class Engine(StrEnum):
    SGLANG = "sglang"
    VLLM = "vllm"
    LLAMACPP = "llamacpp"
    TGI = "tgi"
    TENSORRT_LLM = "tensorrt-llm"
    LMDEPLOY = "lmdeploy"
    OLLAMA = "ollama"
    OTHER = "other"


class Phase(StrEnum):
    """The furthest point that a launch reached; compare with `.order`."""

    STARTING = "starting"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"

    @property
    def order(self) -> int:
        return tuple(Phase).index(self)


class ServerState(StrEnum):
    STARTING = "starting"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    DEGRADED = "degraded"
    STALLED = "stalled"
    HUNG = "hung"
    EXITED = "exited"
    STOPPED = "stopped"
    GAVE_UP = "gave-up"


class IncidentStatus(StrEnum):
    OPEN = "open"
    PROPOSED = "proposed"
    RELAUNCHING = "relaunching"
    VERIFYING = "verifying"
    RESOLVED = "resolved"
    NEEDS_HUMAN = "needs-human"


class Role(StrEnum):
    CAUSE = "cause"
    SYMPTOM = "symptom"
    NOISE = "noise"
    PROGRESS = "progress"


class Safety(StrEnum):
    SAFE = "safe"
    DEGRADING = "degrading"
    MANUAL = "manual"


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class RuleStatus(StrEnum):
    EXPERIMENTAL = "experimental"
    TEST = "test"
    STABLE = "stable"


class Mode(StrEnum):
    OFF = "off"
    PROPOSE = "propose"
    AUTO = "auto"


class Outcome(StrEnum):
    FAILED = "failed"
    HEALTHY = "healthy"
    STARTING = "starting"
    UNKNOWN = "unknown"


class Action(StrEnum):
    """What would bring the server back: a changed command, the same one again, or nothing that we can do."""

    CHANGE = "change"
    RESTART = "restart"
    NONE = "none"


class Origin(StrEnum):
    """Where the launch command of a diagnosis comes from."""

    GIVEN = "given"
    REBUILT = "rebuilt"
    NONE = "none"


class Category(StrEnum):
    UNKNOWN_ARGUMENT = "unknown-argument"
    MISSING_ARGUMENT = "missing-argument"
    INVALID_ARGUMENT_VALUE = "invalid-argument-value"
    INCOMPATIBLE_ARGUMENTS = "incompatible-arguments"
    CONFIG_FILE_ERROR = "config-file-error"
    GPU_OUT_OF_MEMORY = "gpu-out-of-memory"
    HOST_OUT_OF_MEMORY = "host-out-of-memory"
    KV_CACHE_TOO_SMALL = "kv-cache-too-small"
    CONTEXT_TOO_LONG = "context-too-long"
    MEMORY_LEAK = "memory-leak"
    CUDA_ILLEGAL_ACCESS = "cuda-illegal-access"
    CUDA_DEVICE_ASSERT = "cuda-device-assert"
    CUDA_LAUNCH_FAILURE = "cuda-launch-failure"
    GPU_FELL_OFF = "gpu-fell-off"
    UNSUPPORTED_GPU = "unsupported-gpu"
    NO_GPU_VISIBLE = "no-gpu-visible"
    GPU_BUSY = "gpu-busy"
    NCCL_FAILURE = "nccl-failure"
    DISTRIBUTED_TIMEOUT = "distributed-timeout"
    PORT_IN_USE = "port-in-use"
    MODEL_NOT_FOUND = "model-not-found"
    GATED_MODEL = "gated-model"
    WEIGHTS_MISMATCH = "weights-mismatch"
    CORRUPT_CHECKPOINT = "corrupt-checkpoint"
    UNSUPPORTED_ARCHITECTURE = "unsupported-architecture"
    QUANTIZATION_UNSUPPORTED = "quantization-unsupported"
    TOKENIZER_OR_CHAT_TEMPLATE = "tokenizer-or-chat-template"
    MISSING_DEPENDENCY = "missing-dependency"
    IMPORT_ERROR = "import-error"
    VERSION_MISMATCH = "version-mismatch"
    KERNEL_COMPILE_FAILURE = "kernel-compile-failure"
    OVERLAP_SCHEDULER_CRASH = "overlap-scheduler-crash"
    SPECULATIVE_DECODING_CRASH = "speculative-decoding-crash"
    SCHEDULER_CRASH = "scheduler-crash"
    REQUEST_TRIGGERED_CRASH = "request-triggered-crash"
    GRAMMAR_BACKEND_CRASH = "grammar-backend-crash"
    MULTIMODAL_PROCESSING = "multimodal-processing"
    DISAGGREGATION_FAILURE = "disaggregation-failure"
    HANG = "hang"
    KILLED_BY_SIGNAL = "killed-by-signal"
    DISK_FULL = "disk-full"
    SHM_TOO_SMALL = "shm-too-small"
    PERMISSION_DENIED = "permission-denied"
    NETWORK_UNREACHABLE = "network-unreachable"
    UNKNOWN = "unknown"
