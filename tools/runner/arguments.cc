#include "tools/runner/arguments.h"

#include <cstdlib>

namespace runner {
namespace {

using ProgramArguments = Arguments::Program;

// An option's name, and the member that has its value.
template <class Owner, class Value>
struct Option {
  const char* name;
  Value Owner::* value;
};

constexpr Option<ProgramArguments, std::string> kProgramTexts[] = {
    {"--etdump", &ProgramArguments::etdump},
    {"--manifest", &ProgramArguments::manifest},
    {"--method", &ProgramArguments::method},
    {"--output", &ProgramArguments::output},
    {"--output_format", &ProgramArguments::output_format},
};

constexpr Option<ProgramArguments, std::vector<std::string>> kProgramLists[] = {
    {"--data", &ProgramArguments::data},
    {"--input", &ProgramArguments::inputs},
    {"--text", &ProgramArguments::texts},
};

constexpr Option<Arguments, std::vector<std::string>> kLists[] = {
    {"--device", &Arguments::device},
    {"--media", &Arguments::media},
    {"--variant", &Arguments::variants},
};

constexpr Option<Arguments, std::string> kTexts[] = {
    {"--app", &Arguments::app},
    {"--prompt", &Arguments::prompt},
    {"--state", &Arguments::state},
    {"--system", &Arguments::system},
    {"--tokenizer", &Arguments::tokenizer},
};

constexpr Option<Arguments, int> kNumbers[] = {
    {"--max_new_tokens", &Arguments::max_new_tokens},
    {"--repeat", &Arguments::repeat},
    {"--seed", &Arguments::seed},
    {"--threads", &Arguments::threads},
};
constexpr int kMost = 1000000;
// More than machines have cores; other processes need threads, too.
constexpr int kMaxThreads = 1024;

constexpr Option<Arguments, double> kReals[] = {
    {"--atol", &Arguments::atol},
    {"--rtol", &Arguments::rtol},
    {"--temperature", &Arguments::temperature},
};

constexpr Option<Arguments, bool> kFlags[] = {
    {"--chat", &Arguments::chat},
    {"--json", &Arguments::json},
    {"--list", &Arguments::list},
    {"--no_weight_cache", &Arguments::no_weight_cache},
    {"--parse_special", &Arguments::parse_special},
    {"--raw_prompt", &Arguments::raw_prompt},
    {"--runtime_info", &Arguments::runtime_info},
    {"--verify", &Arguments::verify},
    {"--weight_cache", &Arguments::weight_cache},
};

template <class Options>
auto find(const Options& options, const std::string& name) -> decltype(&options[0]) {
  for (const auto& option : options) {
    if (name == option.name) {
      return &option;
    }
  }
  return nullptr;
}

Result<int> positive(const std::string& option, const std::string& value, int most) {
  char* end = nullptr;
  const long number = strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || number < 1 || number > most) {
    return error(option + " is \"" + value + "\", expected a number from 1 to " + std::to_string(most) + ".");
  }
  return static_cast<int>(number);
}

Result<double> not_negative(const std::string& option, const std::string& value) {
  char* end = nullptr;
  const double number = strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !(number >= 0) || number > 1e300) {
    return error(option + " is \"" + value + "\", expected a number that is not negative.");
  }
  return number;
}

Status check_format(const std::string& value) {
  if (!value.empty() && value != "npy" && value != "safetensors" && value != "raw") {
    return error("--output_format is \"" + value + "\", expected npy, safetensors or raw.");
  }
  return {};
}

Status set_once(
    std::string& target,
    const std::string& option,
    const std::string& value,
    const std::string& of) {
  if (!target.empty()) {
    return error(option + " is given twice" + of + ".");
  }
  target = value;
  return {};
}

// Sets an option, and tells whether it exists. An empty value counts as missing.
Result<bool> set_option(Arguments& arguments, const std::string& option, const std::string& value) {
  ProgramArguments& program =
      arguments.programs.empty() ? arguments.leading : arguments.programs.back();
  if (option == "--program" || option == "--bundled") {
    arguments.programs.emplace_back();
    arguments.programs.back().given = value;
    arguments.programs.back().is_bundled = option == "--bundled";
  } else if (const auto* text = find(kProgramTexts, option)) {
    TRY(set_once(program.*text->value, option, value, " for one --program"));
  } else if (const auto* list = find(kProgramLists, option)) {
    (program.*list->value).push_back(value);
  } else if (const auto* list = find(kLists, option)) {
    (arguments.*list->value).push_back(value);
  } else if (const auto* text = find(kTexts, option)) {
    TRY(set_once(arguments.*text->value, option, value, ""));
  } else if (const auto* number = find(kNumbers, option)) {
    const int most = option == "--threads" ? kMaxThreads : kMost;
    arguments.*number->value = value.empty() ? 0 : TRY(positive(option, value, most));
  } else if (const auto* real = find(kReals, option)) {
    arguments.*real->value = value.empty() ? 0 : TRY(not_negative(option, value));
  } else {
    return false;
  }
  if (option == "--output_format") {
    TRY(check_format(value));
  }
  return true;
}

}  // namespace

const char kUsage[] =
    "runner [--app DIR] [--program NAME_OR_FILE] [option]... [--program ...]...\n"
    "\n"
    "Loads programs into this process, then runs each. In an app, where manifest.json lies beside\n"
    "the runner, the default is all programs of the app.\n"
    "\n"
    "  --app DIR             another app; or --manifest with its manifest.json\n"
    "  --program NAME        a program of the app; the following options belong to it\n"
    "  --program FILE        or any .pte file\n"
    "  --bundled FILE        a .bpte file: runs its test cases and compares their outputs\n"
    "  --manifest FILE       the program's manifest; checked before anything is loaded\n"
    "  --data FILE           a .ptd file; default: the manifest's, beside the program\n"
    "  --method NAME         default: forward, or the only one\n"
    "  --input FILE          one per input: .npy, FILE.safetensors:NAME, or .bin, the bytes alone;\n"
    "                        one .safetensors for all: input_0, ...; default: example inputs\n"
    "  --text TEXT           instead of --input: tokens of the text, a mask and segments; twice for a pair\n"
    "  --output DIR          writes the outputs to DIR/output_0.npy, ...\n"
    "  --output_format F     npy, safetensors (DIR/outputs.safetensors) or raw (DIR/output_0.bin, ...)\n"
    "  --etdump FILE         writes a profile of the program for ExecuTorch's Inspector\n"
    "\n"
    "For all programs:\n"
    "\n"
    "  --prompt TEXT         a language model answers the text; with these options:\n"
    "  --chat                answers each line of standard input, in one conversation\n"
    "  --media FILE          an image or a recording of the first message, as --input, for the encoder; may be repeated\n"
    "  --system TEXT         the system message; default: the chat template's\n"
    "  --raw_prompt          the prompt is the whole input, without a chat template\n"
    "  --parse_special       special tokens in messages, e.g. <|im_end|>, are tokens; default: text\n"
    "  --tokenizer FILE      tokenizer.json, for --prompt with chat_format.json beside it; default: the app's\n"
    "  --max_new_tokens N    default 256\n"
    "  --temperature X       0, the default: the most likely token; 1: the model's distribution\n"
    "  --seed N              seed of the random numbers; default: random\n"
    "  --variant NAME        takes this program of an app's variants, whatever the device is\n"
    "  --device FACT=VALUE   in place of the device's own, e.g. soc=SM8650; may be repeated\n"
    "  --state DIR           remembers there which variants crashed while they were loaded\n"
    "  --list                prints programs, methods, inputs and outputs, without running them\n"
    "  --runtime_info        prints the runtime's version, backends and operators as JSON\n"
    "  --repeat N            runs per program, default 1\n"
    "  --threads N           1 to 1024; default: the runtime's choice for this machine\n"
    "  --atol X, --rtol X    allowed differences of --bundled, default 1e-4 each\n"
    "  --weight_cache        XNNPACK packs equal weights of all programs once; an error if that is unsafe\n"
    "  --no_weight_cache     never; default: if the manifests prove that it is safe\n"
    "  --verify              checks the sha256 of all files in a manifest\n"
    "  --json                prints times and memory as JSON\n";

Result<Arguments> parse_arguments(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string option = values[i];
    if (option == "--help" || option == "-h") {
      arguments.help = true;
      return arguments;
    }
    if (const auto* flag = find(kFlags, option)) {
      arguments.*flag->value = true;
      continue;
    }
    const size_t equals = option.find('=');
    const bool has_equals = option.rfind("--", 0) == 0 && equals != std::string::npos;
    const bool has_value = has_equals || i + 1 < count;
    const std::string value = has_equals ? option.substr(equals + 1)
        : has_value                      ? values[i + 1]
                                         : "";
    option = has_equals ? option.substr(0, equals) : option;
    if (!TRY(set_option(arguments, option, value))) {
      return error("unknown option \"" + option + "\"; --help lists them.");
    }
    if (value.empty()) {
      return error(option + " has no value; --help lists the options.");
    }
    i += has_equals ? 0 : 1;
  }
  if (arguments.weight_cache && arguments.no_weight_cache) {
    return error("--weight_cache and --no_weight_cache exclude each other; give one of them.");
  }
  return arguments;
}

std::string option_of(const ProgramArguments& leading) {
  for (const auto& text : kProgramTexts) {
    if (!(leading.*text.value).empty()) {
      return text.name;
    }
  }
  for (const auto& list : kProgramLists) {
    if (!(leading.*list.value).empty()) {
      return list.name;
    }
  }
  return "";
}

}  // namespace runner
