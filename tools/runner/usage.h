// What --help prints.
#pragma once

namespace runner {

constexpr char kUsage[] =
    "runner [--app DIR] [--program NAME_OR_FILE] [option]... [--program ...]...\n"
    "\n"
    "Loads programs into this process, then runs each. In an app, where manifest.json lies beside\n"
    "the runner, they are the app's: all, or those that are named.\n"
    "\n"
    "  --app DIR             another app; its manifest.json as --manifest does the same\n"
    "  --program NAME        a program of the app; starts a group, to which what follows belongs\n"
    "  --program FILE        or any .pte file\n"
    "  --bundled FILE        a .bpte file: runs its test cases and compares their outputs\n"
    "  --manifest FILE       what the linker wrote of it; checked before anything is loaded\n"
    "  --data FILE           a .ptd file; default: the manifest's, beside the program\n"
    "  --method NAME         default: forward, or the only one\n"
    "  --input FILE          one per input: .npy, FILE.safetensors:NAME, or .bin, the bytes alone;\n"
    "                        one .safetensors for all: input_0, ...; default: made up\n"
    "  --output DIR          writes the outputs to DIR/output_0.npy, ...\n"
    "  --output_format F     npy, safetensors (DIR/outputs.safetensors) or raw (DIR/output_0.bin, ...)\n"
    "  --etdump FILE         writes how long each part of the program took, for ExecuTorch's Inspector\n"
    "\n"
    "For all programs:\n"
    "\n"
    "  --prompt TEXT         a language model answers it; with these:\n"
    "  --chat                it answers each line of standard input, in one conversation\n"
    "  --system TEXT         what it is told first; default: what its chat template says\n"
    "  --raw_prompt          the prompt is all that it gets, without a chat template\n"
    "  --tokenizer FILE      tokenizer.json, with chat_format.json beside it; default: the app's\n"
    "  --max_new_tokens N    default 256\n"
    "  --temperature X       0, the default: the most likely token; 1: the model's distribution\n"
    "  --seed N              of the random numbers; default: another one each time\n"
    "  --list                prints programs, methods, inputs and outputs, and runs nothing\n"
    "  --runtime_info        prints the runtime's version, backends and operators as JSON\n"
    "  --repeat N            runs per program, default 1\n"
    "  --threads N           default: what the runtime chooses for this machine\n"
    "  --atol X, --rtol X    allowed differences of --bundled, default 1e-4 each\n"
    "  --weight_cache        XNNPACK keeps equal weights of all programs once in memory\n"
    "  --verify              hashes all files that a manifest names\n"
    "  --json                prints times and memory as JSON\n";

}  // namespace runner
