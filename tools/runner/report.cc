#include "tools/runner/report.h"

#include <algorithm>

#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/text.h"
#include "tools/runner/tensors/array.h"

namespace runner {
namespace {

using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

const char* name_of(Tag tag) {
  switch (tag) {
    case Tag::Tensor:
      return "tensor";
    case Tag::Int:
      return "int";
    case Tag::Double:
      return "float";
    case Tag::Bool:
      return "bool";
    case Tag::String:
      return "string";
    case Tag::None:
      return "none";
    default:
      return "list";
  }
}

std::string dtype_name(executorch::aten::ScalarType type) {
  const Dtype* dtype = dtype_of(type);
  return dtype != nullptr ? dtype->name
                          : "dtype number " + std::to_string(static_cast<int>(type));
}

template <class Tensor>
ValueInfo tensor_info(const std::string& name, const Tensor& tensor) {
  return {name, "tensor", dtype_name(tensor.scalar_type()),
          {tensor.sizes().begin(), tensor.sizes().end()}};
}

ValueInfo value_info(
    const std::string& name,
    const executorch::runtime::Result<Tag>& tag,
    const executorch::runtime::Result<TensorInfo>& tensor) {
  if (tensor.ok()) {
    return tensor_info(name, *tensor);
  }
  return {name, tag.ok() ? name_of(*tag) : "unknown", "", {}};
}

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

Result<std::string> listing_text(const ListedProgram& listed) {
  std::string text = listed.name + "\n";
  for (const std::string& name : listed.program->methods()) {
    const auto method = TRY(listed.program->meta(name));
    text += "  " + name + "(" + to_text(inputs_of(method)) + ") -> " +
        to_text(outputs_of(method)) + "\n";
  }
  return text;
}

Result<Json> listing_json(const ListedProgram& listed) {
  Json methods = Json::array();
  for (const std::string& name : listed.program->methods()) {
    const auto method = TRY(listed.program->meta(name));
    methods.push_back({
        {"name", name},
        {"inputs", to_json(inputs_of(method))},
        {"outputs", to_json(outputs_of(method))},
    });
  }
  return Json{{"name", listed.name}, {"program", listed.program->path()}, {"methods", methods}};
}

}  // namespace

std::vector<ValueInfo> inputs_of(const MethodMeta& method) {
  std::vector<ValueInfo> values;
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    const std::string name = "input_" + std::to_string(i);
    values.push_back(value_info(name, method.input_tag(i), method.input_tensor_meta(i)));
  }
  return values;
}

std::vector<ValueInfo> outputs_of(const MethodMeta& method) {
  std::vector<ValueInfo> values;
  for (size_t i = 0; i < method.num_outputs(); ++i) {
    const std::string name = "output_" + std::to_string(i);
    values.push_back(value_info(name, method.output_tag(i), method.output_tensor_meta(i)));
  }
  return values;
}

std::vector<ValueInfo> infos_of(const std::vector<EValue>& values, const std::string& prefix) {
  std::vector<ValueInfo> infos;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string name = prefix + std::to_string(i);
    infos.push_back(
        values[i].isTensor() ? tensor_info(name, values[i].toTensor())
                             : ValueInfo{name, name_of(values[i].tag), "", {}});
  }
  return infos;
}

nlohmann::ordered_json to_json(const std::vector<ValueInfo>& values) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ValueInfo& value : values) {
    nlohmann::ordered_json json = {{"name", value.name}, {"kind", value.kind}};
    if (!value.dtype.empty()) {
      json["dtype"] = value.dtype;
      json["shape"] = value.shape;
    }
    list.push_back(json);
  }
  return list;
}

std::string to_text(const std::vector<ValueInfo>& values) {
  std::string text;
  for (const ValueInfo& value : values) {
    text += text.empty() ? "" : ", ";
    text += value.dtype.empty() ? value.kind : value.dtype + " " + shape_text(value.shape);
  }
  return text;
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
        {"inputs", to_json(program.inputs)},
        {"output_values", to_json(program.outputs)},
        {"outputs", program.output_files},
    });
    if (!program.etdump.empty()) {
      programs.back()["etdump"] = program.etdump;
    }
    if (report.is_chat) {
      Json answers = Json::array();
      for (const Answer& answer : program.conversation.answers) {
        answers.push_back(to_json(answer));
      }
      programs.back()["answers"] = answers;
      Json unanswered = Json::array();
      for (const auto& [turn, problem] : program.conversation.unanswered) {
        unanswered.push_back({{"turn", turn}, {"error", problem}});
      }
      programs.back()["unanswered"] = unanswered;
    } else if (!program.conversation.answers.empty()) {
      programs.back()["answer"] = to_json(program.conversation.answers.front());
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

Status print_listing(const std::vector<ListedProgram>& programs, bool as_json) {
  std::string text;
  Json list = Json::array();
  for (const ListedProgram& program : programs) {
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
