"""Words by which operating systems, drivers, hubs and libraries tell a kind of failure, whoever passes them on.

The kinds are tried in this order: what is said exactly (an error number, a driver's text) comes before what is only
likely. Case counts for nothing.
"""

from __future__ import annotations

from app.core.vocabulary import Category

WORDS: tuple[tuple[Category, tuple[str, ...]], ...] = (
    (
        Category.SHM_TOO_SMALL,
        (
            r"/dev/shm",  # noqa: S108  (a word to look for)
            r"shared memory (?:segment|region|key|object|file)",
            r"\bshm\b",
            r"--shm-size",
            r"shmutils",
        ),
    ),
    (
        Category.DISK_FULL,
        (
            r"no space left on device",
            r"disk quota exceeded",
            r"\bENOSPC\b",
            r"disk is full",
            r"out of ?disk",
            r"storagefull",
            r"\(os error 28\)",
            r"\[errno (?:28|122)\]",
        ),
    ),
    (
        Category.DISAGGREGATION_FAILURE,
        (
            r"\bnixl",
            r"\bmooncake\b",
            r"(?:prefill|decode) (?:instance|server|worker).{0,60}(?:dead|lost|unreachable|failed|connect)",
            r"connect to (?:the )?(?:prefill|decode)",
        ),
    ),
    (
        Category.MEMORY_LEAK,
        (r"\bmemory leak",),
    ),
    (
        Category.GPU_BUSY,
        (
            r"devices? (?:\w+ )?(?:is|are)(?:/are)? busy or unavailable",
            r"exclusive[- ]thread device",
        ),
    ),
    (
        Category.GPU_OUT_OF_MEMORY,
        (
            r"(?:cuda|hip|gpu|vram|rocm|metal|vulkan|device|cublas|cudamalloc)\w*\b.{0,160}out ?of ?memory",
            r"out ?of ?(?:device )?memory.{0,80}\b(?:cuda|gpu|vram|device)",
            r"outofdevicememory",
            r"\bno (?:free )?gpu memory",
            r"insufficient (?:gpu )?memory.{0,40}iogpu",
            r"(?:insufficient|not enough|no more) (?:gpu|vram|video|device) memory",
            r"cudaerrormemoryallocation",
            r"\b(?:vram|gpu memory) (?:is )?(?:exhausted|too small)",
            r"cublas_status_alloc_failed",
        ),
    ),
    (
        Category.HOST_OUT_OF_MEMORY,
        (
            r"\bout ?of ?memory\b",
            r"cannot allocate memory",
            r"\boom[- ]?kill",
            r"bad_alloc",
            r"memoryerror",
            r"unable to allocate .{0,60}(?:[kmgt]i?b|bytes)",
            r"not enough (?:host |system |cpu )?memory",
            r"low on memory",
            r"more system memory",
            r"\[errno 12\]",
            r"\(os error 12\)",
            r"memory limit exceeded",
            r"cannot start new thread",
            r"can't start new thread",
        ),
    ),
    (
        Category.CUDA_ILLEGAL_ACCESS,
        (
            r"illegal memory access",
            r"misaligned address",
            r"\bmmu fault\b",
            r"illegaladdress",
            r"memory access fault by gpu",
        ),
    ),
    (
        Category.CUDA_DEVICE_ASSERT,
        (
            r"device-side assert",
            r"deviceassert",
        ),
    ),
    (
        Category.UNSUPPORTED_GPU,
        (
            r"no kernel image",
            r"kernel image is invalid",
            r"invalid device function",
            r"compute (?:cap\w*|capability)\b",
            r"capability .{0,40}(?:not supported|not compatible|required)",
            r"\bsm_?\d{2,3}\b.{0,60}(?:not|only)",
            r"unsupported (?:gpu|device|architecture 'sm)",
            r"gpu .{0,40}(?:too old|not supported|unsupported)",
            r"hsa_status_error_invalid_isa",
            r"\bgfx\d{3,4}\b",
            r"(?:requires?|needs?|only supports?) (?:an? )?(?:ampere|hopper|blackwell|ada|turing|volta)",
        ),
    ),
    (
        Category.GPU_FELL_OFF,
        (
            r"fallen off the bus",
            r"\becc error",
            r"\bxid\b",
            r"gpu is lost",
            r"device ?lost",
            r"devicelost",
            r"nvlink error",
            r"hardware (?:stack )?exception",
            r"gpu (?:hang|reset)",
        ),
    ),
    (
        Category.VERSION_MISMATCH,
        (
            r"\bversion\b.{0,80}\bmismatch",
            r"api mismatch",
            r"driver version is insufficient",
            r"driver .{0,60}too old",
            r"undefined symbol",
            r"version mismatch",
            r"mismatched version",
            r"version `?[\w.]+'? not found",
            r"abi (?:mismatch|version)",
            r"unsupported toolchain",
            r"could not run .{1,80} with arguments from the .{1,20} backend",
            r"(?:built|compiled|generated) (?:with|for|against|on) (?:a |an )?(?:different|another|incompatible"
            r"|newer|older)",
            r"(?:requires?|needs?|please (?:update|upgrade)|supports only) .{0,60}(?:newer|later|higher|version"
            r"|>=)",
            r"not compatible with (?:this|the) (?:version|current|installed)",
            r"cannot find plugin",
            r"unknown (?:model file format|file format|opset)",
            r"incompatible (?:version|with version)",
            r"version .{0,40}(?:is )?(?:too (?:old|new)|incompatible|not supported|unsupported)",
        ),
    ),
    (
        Category.NO_GPU_VISIBLE,
        (
            r"number of (?:gpus|devices) .{0,40}(?:not enough|less than|smaller|insufficient)",
            r"more gpus than",
            r"only \d+ (?:gpus?|devices?)",
            r"\bcdi devices?\b",
            r"nvidia-container-(?:cli|runtime)",
            r"no (?:cuda|nvidia|hip|rocm|gpu)\w*[- ](?:capable )?(?:gpus?|devices?|driver)",
            r"no (?:gpus?|devices?|accelerators?) (?:were |was |are |is )?(?:found|available|visible|detected)",
            r"invalid device ordinal",
            r"system not yet initialized",
            r"cudagetdevicecount",
            r"failed to initialize nvml",
            r"fabric ?manager",
            r"could not (?:find|select) (?:any )?(?:gpu|device driver)",
            r"not enough (?:gpus|slots)",
            r"fewer gpus",
        ),
    ),
    (
        Category.CUDA_LAUNCH_FAILURE,
        (
            r"launch failure",
            r"launch failed",
            r"cublas_status",
            r"cudnn_status",
            r"cufft_",
            r"launch timed out",
            r"\bcuda(?:error| error| failure)",
        ),
    ),
    (
        Category.DISTRIBUTED_TIMEOUT,
        (
            r"(?:rendezvous|tcpstore|barrier|collective|init_process_group|all_?reduce"
            r"|broadcast).{0,80}time[ds]?[ -]?out",
            r"timed out .{0,60}(?:rank|peer|worker|client|store)",
        ),
    ),
    (
        Category.NCCL_FAILURE,
        (
            r"\b(?:nccl|rccl|hccl|infiniband|ibverbs)\b",
            r"net/ib",
        ),
    ),
    (
        Category.PORT_IN_USE,
        (
            r"address already in use",
            r"port .{0,30}(?:already|in use|allocated|occupied)",
            r"addrinuse",
            r"is already (?:running|listening|bound) (?:at|on)\b",
            r"\[errno (?:98|48)\]",
            r"\(os error (?:98|48)\)",
            r"only one usage of each socket",
        ),
    ),
    (
        Category.PERMISSION_DENIED,
        (
            r"permission denied",
            r"operation not permitted",
            r"read-only file system",
            r"eacces",
            r"\[errno (?:1|13|30)\]",
            r"\(os error (?:1|13|30)\)",
            r"access is denied",
        ),
    ),
    (
        Category.CORRUPT_CHECKPOINT,
        (
            r"consistency check failed",
            r"should be of size \d+",
            r"digest mismatch",
            r"checksum",
            r"hash mismatch",
            r"corrupt",
            r"truncated",
            r"invalid (?:file )?magic",
            r"bad magic",
            r"unexpected(?:ly)? (?:reached )?(?:eof|end of file)",
            r"incomplete (?:download|file|metadata)",
            r"headertoolarge",
            r"header too large",
            r"bad zip ?file",
            r"failed finding central directory",
        ),
    ),
    (
        Category.GATED_MODEL,
        (
            r"\bgated\b",
            r"\b40[13]\b.{0,40}(?:unauthorized|forbidden|client error)",
            r"unauthorized",
            r"restricted.{0,80}access",
            r"authentication required",
            r"invalid (?:user )?token",
        ),
    ),
    (
        Category.MISSING_DEPENDENCY,
        (
            r"(?:built|compiled) without\b",
            r"not (?:supported|available|enabled) in this build",
            r"not compiled with\b",
            r"\brebuild with\b",
        ),
    ),
    (
        Category.NETWORK_UNREACHABLE,
        (
            r"connection broken",
            r"incompleteread",
            r"chunkedencoding",
            r"remote end closed connection",
            r"name or service not known",
            r"could not resolve",
            r"name resolution",
            r"no such host",
            r"network is unreachable",
            r"no route to host",
            r"certificate",
            r"\bssl\b",
            r"\btls\b",
            r"proxy",
            r"connection (?:refused|reset|timed out|aborted)",
            r"connect(?:ion)? time(?:d )?out",
            r"max retries exceeded",
            r"read timed out",
            r"\b(?:429|50[0234])\b.{0,40}(?:error|too many|server|gateway|unavailable)",
            r"could not connect",
            r"failed to connect",
            r"error sending request",
            r"host unreachable",
        ),
    ),
    (
        Category.MISSING_DEPENDENCY,
        (
            r"cannot open shared object",
            r"could not load library",
            r"no module named",
            r"modulenotfound",
            r"command not found",
            r"please install",
            r"is not installed",
            r"not installed\b",
            r"executable (?:file )?not found",
            r"unable to find .{0,40}(?:library|executable|compiler)",
            r"failed to find .{0,40}(?:compiler|nvcc|ptxas)",
            r"dll load failed",
            r"\[winerror 126\]",
        ),
    ),
    (
        Category.IMPORT_ERROR,
        (
            r"importerror",
            r"cannot import",
            r"error importing",
            r"failed to import",
            r"could not import",
        ),
    ),
    (
        Category.TOKENIZER_OR_CHAT_TEMPLATE,
        (
            r"untagged enum \w*(?:model|tokenizer|processor|decoder|normalizer)\w*wrapper",
            r"untagged enum \w+wrapper",
            r"tokeni[sz]er",
            r"chat[_ ]?template",
            r"vocab(?:ulary)? file",
            r"sentencepiece",
            r"tiktoken",
            r"jinja",
        ),
    ),
    (
        Category.MULTIMODAL_PROCESSING,
        (
            r"(?<!kernel )(?:image|video|audio|vision|multimodal|mm_|pixel|placeholder)\w* .{0,80}(?:not supported"
            r"|mismatch"
            r"|failed|error|do(?:es)? not match|invalid|tokens)",
            r"mmproj",
            r"\bclip model\b",
            r"image processor",
            r"processor_config",
            r"preprocessor_config",
        ),
    ),
    (
        Category.QUANTIZATION_UNSUPPORTED,
        (
            r"quanti[sz]",
            r"\b(?:gptq|awq|fp8|fp4|nvfp4|mxfp4|bitsandbytes|marlin|exl2|eetq|hqq|compressed-tensors)\b",
        ),
    ),
    (
        Category.KV_CACHE_TOO_SMALL,
        (
            r"kv[- _]?cache.{0,100}(?:full|too small|insufficient|not enough|exceed|larger|no (?:available"
            r" )?(?:blocks|space)|space|increas)",
            r"no available memory for the cache",
            r"no free (?:blocks|slots)",
            r"not enough .{0,30}(?:cache|blocks|kv)",
        ),
    ),
    (
        Category.CONTEXT_TOO_LONG,
        (
            r"max(?:imum)?[_ ](?:position|model|context|seq\w*|sequence|input)\w*[_ ](?:embeddings|len\w*)",
            r"context (?:size|length|window).{0,60}(?:exceed|too|larger|longer|than)",
            r"(?:sequence|prompt|input|context) (?:length )?.{0,60}(?:exceeds?|too long|larger than|longer than"
            r"|greater than)",
            r"exceeds? .{0,60}(?:context|sequence length|max_seq_len|position)",
        ),
    ),
    (
        Category.UNSUPPORTED_ARCHITECTURE,
        (
            r"unknown projector type",
            r"rewrite for architectures",
            r"(?:unrecognized|unimplemented) (?:model|arch\w*|configuration class)",
            r"unsupported (?:model|arch\w*)",
            r"unknown (?:model )?(?:arch\w*|model type)",
            r"model (?:type|arch\w*|class)\b.{0,80}(?:not supported|unsupported|not recognized|unknown|not"
            r" found)",
            r"arch\w* .{0,60}(?:not supported|unsupported|unknown|not implemented)",
            r"no (?:implementation|model class) (?:of|for|found)",
        ),
    ),
    (
        Category.WEIGHTS_MISMATCH,
        (
            r"size mismatch",
            r"shape mismatch",
            r"exceeds dimension size",
            r"no (?:module or )?parameter named",
            r"wrong shape",
            r"shapes? .{0,60}(?:do not match|cannot be multiplied|mismatch)",
            r"missing (?:tensor|key|weight)",
            r"unexpected key",
            r"state_dict",
            r"(?:weight|tensor|param\w*) .{0,80}(?:does not exist|not found|missing|mismatch)",
            r"wrong number of tensors",
            r"failed to (?:apply|load) lora",
        ),
    ),
    (
        Category.INCOMPATIBLE_ARGUMENTS,
        (
            r"(?:does not|doesn't|do not|don't) support .{1,80} (?:with|when|together)",
            r"(?:not|n't) (?:yet )?(?:supported|compatible|implemented) (?:with|for|when|in combination)",
            r"divisible by",
            r"not (?:compatible|allowed|supported) (?:together )?with",
            r"cannot be (?:used|combined|set|specified|enabled) (?:together|with|when|both|at the same time)",
            r"mutually exclusive",
            r"conflicts? with",
            r"must be (?:less|greater|smaller|larger|at least|at most|equal|<|>|<=|>=)",
            r"only (?:supported|works|valid) (?:with|when|if)",
            r"requires? --?\w",
            r"cannot use .{1,60} (?:for|with|when)\b",
            r"\b(?:is|are) (?:greater|larger|more|less|smaller) than (?:the )?"
            r"(?:max|min|model|config|allowed|supported)",
            r"(?:not|n't) (?:yet )?supported\b.{0,40}\b(?:backend|mode|attention|parallel)",
        ),
    ),
    (
        Category.MISSING_ARGUMENT,
        (
            r"(?:must|should|need to|please) (?:be )?(?:specify|specified|provide|provided|set|pass|give)\b",
            r"is required\b",
            r"missing (?:required )?(?:argument|option|parameter|env\w*)",
        ),
    ),
    (
        Category.CONFIG_FILE_ERROR,
        (
            r"(?:config\w*|pbtxt|yaml|json|toml|modelfile|configmap|secret)\b.{0,120}(?:not found|invalid"
            r"|missing|error|failed|can(?:not|'t)|unexpected|does not|malformed)",
            r"(?:invalid|malformed|failed to (?:parse|read|load)|error (?:parsing|reading|loading)|expecting)"
            r" .{0,60}(?:config|json|yaml|toml|pbtxt)",
            r"jsondecodeerror",
            r"validation errors? for \w*(?:config|settings|args|options|parameters)\b",
            r"yaml\.\w+error",
            r"scannererror",
        ),
    ),
    (
        Category.MODEL_NOT_FOUND,
        (
            r"failed to load gguf split",
            r"(?:models?|repo\w*|checkpoint|weights?|engine|adapter|lora|gguf|safetensors|artifact\w*"
            r"|manifest)\b.{0,120}(?:not found|does not exist|no such file|doesn't exist|cannot (?:be )?(?:find"
            r"|found)|404|could not be)",
            r"(?:no such file or directory|failed to (?:open|stat)|not found|\b404\b).{0,120}(?:model|engine"
            r"|weight|checkpoint|gguf|safetensors|config\.json|\.bin\b|huggingface)",
            r"\b404\b.{0,40}(?:not found|client error)",
        ),
    ),
    (
        Category.INVALID_ARGUMENT_VALUE,
        (
            r"cannot be negative",
            r"must be (?:>|<|greater|positive|non-?negative)",
            r"unsupported value",
            r"unexpected value",
            r"(?:is|are) invalid\b",
            r"invalid (?:value|argument|choice|option|int\w*|float|literal)",
            r"unrecognized (?:value|option)",
            r"must be (?:one of|in|a |an |of type|between|positive|either)",
            r"is not a valid",
            r"not in \[",
            r"out of range",
            r"expected one of",
            r"unknown value",
        ),
    ),
    (
        Category.INVALID_ARGUMENT_VALUE,
        (
            r"\b(?:unknown|invalid|unrecognized|unsupported) [\w -]{0,30}"
            r"\b(?:backend|method|format|mode|type|parser|policy)\b:? ?['\"`]?\w",
        ),
    ),
    (
        Category.GRAMMAR_BACKEND_CRASH,
        (
            r"grammar",
            r"xgrammar",
            r"outlines",
            r"llguidance",
            r"guided decoding",
            r"structured output",
        ),
    ),
    (
        Category.SPECULATIVE_DECODING_CRASH,
        (
            r"speculative",
            r"draft model",
            r"\beagle\b",
            r"medusa",
            r"\bmtp\b",
        ),
    ),
    (
        Category.DISAGGREGATION_FAILURE,
        (
            r"disaggregat",
            r"mooncake",
            r"\bnixl\b",
            r"kv ?transfer",
            r"prefill instance",
            r"decode instance",
        ),
    ),
    (
        Category.KERNEL_COMPILE_FAILURE,
        (
            r"error compiling\b",
            r"\bnvcc\b",
            r"\bninja\b",
            r"\bptxas\b",
            r"compilation (?:error|failed)",
            r"failed to compile",
            r"inductor",
            r"triton\.\w*comp",
        ),
    ),
    (
        Category.HANG,
        (
            r"\bdeadlock",
            r"\bstuck\b",
            r"watchdog",
            r"\bhang(?:s|ing)?\b",
            r"\bhung\b",
            r"not responding",
            r"made no progress",
            r"timed out",
            r"timeout",
        ),
    ),
)
