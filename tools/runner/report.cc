#include "tools/runner/report.h"

#include <algorithm>

#include "tools/runner/base/json.h"
#include "tools/runner/base/output.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Memory& memory) {
  return {
      {"resident_bytes", memory.resident},
      {"anonymous_bytes", memory.anonymous},
      {"file_bytes", memory.file},
      {"peak_bytes", memory.peak},
  };
}

std::string mebibytes(uint64_t bytes) {
  return with_digits(static_cast<double>(bytes) / (1 << 20), 1);
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Json to_json(const Answer& answer) {
  return {
      {"text", answer.text},
      {"reason", answer.reason},
      {"prompt_tokens", answer.prompt_tokens},
      {"tokens", answer.tokens},
      {"prefill_ms", answer.prefill_ms},
      {"prefill_tokens_per_second", per_second(answer.prompt_tokens.size(), answer.prefill_ms)},
      {"decode_ms", answer.decode_ms},
      {"decode_tokens_per_second", per_second(answer.decode_tokens, answer.decode_ms)},
  };
}

}  // namespace

void print_json(const Report& report) {
  Json programs = Json::array();
  for (const ProgramReport& program : report.programs) {
    programs.push_back({
        {"name", program.name},
        {"program", program.program},
        {"data", program.data},
        {"method", program.method},
        {"load_ms", program.load_ms},
        {"memory_after_load", to_json(program.after_load)},
        {"run_ms", program.run_ms},
        {"median_run_ms", median(program.run_ms)},
        {"memory_after_run", to_json(program.after_run)},
        {"inputs", to_json(program.inputs)},
        {"output_values", to_json(program.outputs)},
        {"outputs", program.output_files},
    });
    if (!program.etdump.empty()) {
      programs.back()["etdump"] = program.etdump;
    }
    if (report.is_chat) {
      Json answers = Json::array();
      for (const Answer& answer : program.answers) {
        answers.push_back(to_json(answer));
      }
      programs.back()["answers"] = answers;
    } else if (!program.answers.empty()) {
      programs.back()["answer"] = to_json(program.answers.front());
    }
    if (program.bundled) {
      programs.back()["bundled"] = {
          {"cases", program.bundled->cases},
          {"largest_difference", program.bundled->largest_difference},
      };
    }
  }
  const Json json = {
      {"format", 1},
      {"weight_cache", report.weight_cache},
      {"memory_at_start", to_json(report.at_start)},
      {"peak_bytes", memory_now().peak},
      {"programs", programs},
  };
  // Paths may hold bytes that are no UTF-8.
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace);
  print(text + "\n");
}

void print_text(const Report& report) {
  for (const ProgramReport& program : report.programs) {
    // Printed as it came.
    if (report.is_chat || !program.answers.empty()) {
      continue;
    }
    if (program.bundled) {
      print(
          program.program + ": " + std::to_string(program.bundled->cases) +
          " test cases give what they should; the largest difference is " +
          short_text(program.bundled->largest_difference) + "\n");
      continue;
    }
    print(
        program.program + ": loaded in " + with_digits(program.load_ms, 1) + " ms (then " +
        mebibytes(program.after_load.resident) + " MiB resident), ran \"" + program.method +
        "\" in " + with_digits(median(program.run_ms), 2) + " ms (median of " +
        std::to_string(program.run_ms.size()) + "; then " +
        mebibytes(program.after_run.resident) + " MiB)\n");
  }
}

}  // namespace runner
