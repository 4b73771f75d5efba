#include "tools/runner/report.h"

#include <algorithm>

#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/text.h"
#include "tools/runner/tensors/array.h"

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

// "float32 (2, 16), int".
std::string to_text(const executorch_app_value* values, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const auto& [kind, dtype, shape, rank] = values[i];
    text += text.empty() ? "" : ", ";
    text += dtype == nullptr ? kind : std::string(dtype) + " " + shape_text({shape, shape + rank});
  }
  return text;
}

Result<executorch_app_method> method_of(const OpenProgram& program, size_t index) {
  const char* name = executorch_app_method_name(program.session, index);
  executorch_app_method method;
  TRY(call(executorch_app_describe_method, program.session, name, &method));
  return method;
}

Result<std::string> listing_text(const OpenProgram& program) {
  std::string text = std::string(executorch_app_program_name(program.app, program.index)) + "\n";
  for (size_t i = 0; i < executorch_app_method_count(program.session); ++i) {
    const auto method = TRY(method_of(program, i));
    text += "  " + std::string(method.name) + "(" + to_text(method.inputs, method.input_count) + ") -> " +
        to_text(method.outputs, method.output_count) + "\n";
  }
  return text;
}

Result<Json> listing_json(const OpenProgram& program) {
  Json methods = Json::array();
  for (size_t i = 0; i < executorch_app_method_count(program.session); ++i) {
    const auto method = TRY(method_of(program, i));
    methods.push_back({
        {"name", method.name},
        {"inputs", json_of_values(method.inputs, method.input_count, "input_")},
        {"outputs", json_of_values(method.outputs, method.output_count, "output_")},
    });
  }
  const char* name = executorch_app_program_name(program.app, program.index);
  return Json{{"name", name}, {"program", program.path()}, {"methods", methods}};
}

}  // namespace

nlohmann::ordered_json json_of_values(const executorch_app_value* values, size_t count, const std::string& prefix) {
  Json list = Json::array();
  for (size_t i = 0; i < count; ++i) {
    const auto& [kind, dtype, shape, rank] = values[i];
    Json json = {{"name", prefix + std::to_string(i)}, {"kind", kind}};
    if (dtype != nullptr) {
      json["dtype"] = dtype;
      json["shape"] = std::vector<int64_t>(shape, shape + rank);
    }
    list.push_back(json);
  }
  return list;
}

Status print_json(const Report& report) {
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
        {"inputs", program.inputs},
        {"output_values", program.outputs},
        {"outputs", program.output_files},
    });
    if (!program.etdump.empty()) {
      programs.back()["etdump"] = program.etdump;
    }
    if (report.is_chat) {
      programs.back()["answers"] = program.conversation.answers;
      Json unanswered = Json::array();
      for (const auto& [turn, problem] : program.conversation.unanswered) {
        unanswered.push_back({{"turn", turn}, {"error", problem}});
      }
      programs.back()["unanswered"] = unanswered;
    } else if (!program.conversation.answers.empty()) {
      programs.back()["answer"] = program.conversation.answers.front();
    }
    if (program.bundled) {
      programs.back()["bundled"] = {
          {"cases", program.bundled->cases},
          {"largest_difference", program.bundled->largest_difference},
      };
    }
  }
  Json json = {
      {"format", 1},
      {"weight_cache", report.weight_cache},
      {"memory_at_start", to_json(report.at_start)},
      {"peak_bytes", memory_now().peak},
      {"programs", programs},
  };
  if (!report.failure.empty()) {
    json["error"] = report.failure;
  }
  // Paths may contain bytes that are not UTF-8.
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace);
  return write_to_stdout(text + "\n");
}

Status print_text(const Report& report) {
  for (const ProgramReport& program : report.programs) {
    // Already printed.
    if (report.is_chat || !program.conversation.answers.empty()) {
      continue;
    }
    if (program.bundled) {
      TRY(write_to_stdout(
          program.program + ": " + std::to_string(program.bundled->cases) +
          " test cases pass; the largest difference is " +
          short_text(program.bundled->largest_difference) + "\n"));
      continue;
    }
    TRY(write_to_stdout(
        program.program + ": loaded in " + with_digits(program.load_ms, 1) + " ms (then " +
        mebibytes(program.after_load.resident) + " MiB resident), ran \"" + program.method +
        "\" in " + with_digits(median(program.run_ms), 2) + " ms (median of " +
        std::to_string(program.run_ms.size()) + "; then " +
        mebibytes(program.after_run.resident) + " MiB)\n"));
  }
  return {};
}

Status print_listing(const std::vector<OpenProgram>& programs, bool as_json) {
  std::string text;
  Json list = Json::array();
  for (const OpenProgram& program : programs) {
    if (as_json) {
      list.push_back(TRY(listing_json(program)));
    } else {
      text += TRY(listing_text(program));
    }
  }
  if (as_json) {
    text = Json{{"format", 1}, {"programs", list}}.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return write_to_stdout(text);
}

}  // namespace runner
