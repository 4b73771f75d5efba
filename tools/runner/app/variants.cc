#include "tools/runner/app/variants.h"

#include <algorithm>

#include "tools/runner/app/load_mark.h"
#include "tools/runner/base/checksum.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/process.h"
#include "tools/runner/engine/program.h"
#include "tools/runner/engine/runtime.h"

namespace runner {
namespace {

// More than any app has.
constexpr size_t kMaxVariants = 100;

std::string joined(const std::vector<std::string>& texts, const char* between) {
  std::string all;
  for (const std::string& text : texts) {
    all += (all.empty() ? "" : between) + text;
  }
  return all;
}

constexpr size_t kMaxVersion = 100;

bool is_version(const std::string& text) {
  return !text.empty() && text.size() <= kMaxVersion && text.find_first_not_of("0123456789.") == std::string::npos && text[0] != '.';
}

// The number at `position`, which moves behind the next dot.
uint64_t next_number(const std::string& text, size_t& position) {
  uint64_t number = 0;
  while (position < text.size() && text[position] != '.') {
    // No version has numbers that large.
    number = std::min<uint64_t>(number, UINT32_MAX) * 10 + static_cast<uint64_t>(text[position] - '0');
    position += 1;
  }
  position += position < text.size() ? 1 : 0;
  return number;
}

bool meets(const Manifest::Condition& condition, const std::string& value) {
  if (!condition.any_of.empty()) {
    return std::find(condition.any_of.begin(), condition.any_of.end(), value) != condition.any_of.end();
  }
  const auto is_bound = [](const std::string& bound) { return bound.empty() || is_version(bound); };
  return is_version(value) && is_bound(condition.at_least) && is_bound(condition.below) &&
      (condition.at_least.empty() || compare_versions(value, condition.at_least) >= 0) &&
      (condition.below.empty() || compare_versions(value, condition.below) < 0);
}

std::string condition_text(const Manifest::Condition& condition) {
  std::string text = condition.fact;
  if (!condition.any_of.empty()) {
    return text + " = " + joined(condition.any_of, " ");
  }
  text += condition.at_least.empty() ? "" : " >= " + condition.at_least;
  return text + (condition.below.empty() ? "" : " < " + condition.below);
}

// The mark of a program with these bytes on this runtime: another version of either is tried again.
std::string mark_path(const std::string& folder, const Manifest& app, const Manifest::Program& program) {
  const Manifest::File& file = app.file(program.file);
  const std::string version = program.name + "\n" + std::to_string(file.size) + "\n" + file.sha256 + "\n" +
      std::to_string(file.crc32.value_or(0)) + "\n" + program.interface + "\n" + runtime_version();
  const std::string digest = sha256(reinterpret_cast<const uint8_t*>(version.data()), version.size());
  return folder + "/executorch_loading_" + digest.substr(0, 16);
}

// Loads a program with all its methods, and forgets it.
Status load_once(const ProgramFiles& files, bool verify, OpenDataFiles& open) {
  const CheckedFiles checked = TRY(check_files(files, verify, open));
  const std::unique_ptr<Program> program = TRY(Program::load(checked, nullptr));
  for (const std::string& method : program->methods()) {
    TRY(program->method(method));
  }
  return {};
}

// The same, and remembers if the process ends meanwhile.
Status try_program(
    const Manifest& app,
    const Manifest::Program& program,
    const OpenOptions& options,
    OpenDataFiles& open) {
  set_stage("trying to load " + program.name);
  if (options.state.empty()) {
    return load_once(files_in_app(app, program), options.verify, open);
  }
  const LoadMark mark = TRY(LoadMark::begin(mark_path(options.state, app, program)));
  return load_once(files_in_app(app, program), options.verify, open);
}

// The variant that the options force; nullptr: none.
const Manifest::Variant* forced(const std::vector<Manifest::Variant>& variants, const OpenOptions& options) {
  for (const Manifest::Variant& variant : variants) {
    if (std::find(options.variants.begin(), options.variants.end(), variant.program) != options.variants.end()) {
      return &variant;
    }
  }
  return nullptr;
}

// The first condition of a variant that the device does not meet, as `unmet` says it; "": it meets all.
std::string first_unmet(const Manifest::Variant& variant, Device& device) {
  for (const Manifest::Condition& condition : variant.conditions) {
    const std::string problem = unmet(condition, device);
    if (!problem.empty()) {
      return problem;
    }
  }
  return "";
}

}  // namespace

int compare_versions(const std::string& first, const std::string& second) {
  if (!is_version(first) || !is_version(second)) {
    return (is_version(first) ? 1 : 0) - (is_version(second) ? 1 : 0);
  }
  for (size_t i = 0, j = 0; i < first.size() || j < second.size();) {
    const uint64_t left = next_number(first, i);
    const uint64_t right = next_number(second, j);
    if (left != right) {
      return left < right ? -1 : 1;
    }
  }
  return 0;
}

std::string unmet(const Manifest::Condition& condition, Device& device) {
  if (condition.any_of.empty() && condition.at_least.empty() && condition.below.empty()) {
    return "its condition on " + shortened(condition.fact) + " is none that this version of the interface knows";
  }
  const std::vector<std::string>& values = device.values(condition.fact);
  for (const std::string& value : values) {
    if (meets(condition, value)) {
      return "";
    }
  }
  return "it needs " + shortened(condition_text(condition)) + ", and the device has " +
      (values.empty() ? "no " + shortened(condition.fact) : condition.fact + " " + joined(values, " "));
}

Result<ChosenVariant> choose_variant(
    const std::shared_ptr<const Manifest>& app,
    const std::string& name,
    const OpenOptions& options,
    Device& device,
    OpenDataFiles& open) {
  const std::vector<Manifest::Variant>& variants = app->variants.find(name)->second;
  ChosenVariant chosen = {name, "", {}};
  // Each may be tried.
  if (variants.size() > kMaxVariants) {
    return error(app->path + " has " + std::to_string(variants.size()) + " programs for \"" + name +
                 "\", expected at most " + std::to_string(kMaxVariants) + ".");
  }
  if (const Manifest::Variant* const variant = forced(variants, options)) {
    chosen.program = variant->program;
    return chosen;
  }
  std::vector<std::string> problems;
  const Manifest::Variant* last = nullptr;
  for (const Manifest::Variant& variant : variants) {
    problems.push_back(first_unmet(variant, device));
    last = problems.back().empty() ? &variant : last;
  }
  for (size_t i = 0; i < variants.size(); ++i) {
    chosen.program = variants[i].program;
    if (&variants[i] == last) {
      return chosen;
    }
    if (problems[i].empty()) {
      const Status status = try_program(*app, *app->find(chosen.program), options, open);
      if (status.ok()) {
        return chosen;
      }
      problems[i] = status.sentence();
    }
    chosen.skipped.push_back({chosen.program, problems[i]});
  }
  std::string reasons;
  for (const SkippedVariant& skipped : chosen.skipped) {
    reasons += (reasons.empty() ? "" : "; ") + skipped.program + ": " + skipped.reason;
  }
  return error(app->label + ": no program of \"" + name + "\" is for this device: " + reasons +
               ". Add one without conditions.");
}

std::string json_of(const ChosenVariant& chosen, const DeviceFacts& facts) {
  nlohmann::ordered_json skipped = nlohmann::ordered_json::array();
  for (const SkippedVariant& variant : chosen.skipped) {
    skipped.push_back({{"program", variant.program}, {"reason", variant.reason}});
  }
  const nlohmann::ordered_json json = {{"program", chosen.program}, {"skipped", skipped}, {"device", facts}};
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace runner
