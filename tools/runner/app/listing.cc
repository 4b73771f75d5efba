#include "tools/runner/app/listing.h"

#include "tools/runner/base/json.h"
#include "tools/runner/base/output.h"
#include "tools/runner/engine/value_info.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const ListedProgram& listed) {
  std::string text = listed.name + "\n";
  for (const std::string& name : listed.program->methods()) {
    const auto method = listed.program->meta(name);
    text += "  " + name + "(" + to_text(inputs_of(method)) + ") -> " +
        to_text(outputs_of(method)) + "\n";
  }
  return text;
}

Json json_of(const ListedProgram& listed) {
  Json methods = Json::array();
  for (const std::string& name : listed.program->methods()) {
    const auto method = listed.program->meta(name);
    methods.push_back({
        {"name", name},
        {"inputs", to_json(inputs_of(method))},
        {"outputs", to_json(outputs_of(method))},
    });
  }
  return {{"name", listed.name}, {"program", listed.program->path()}, {"methods", methods}};
}

}  // namespace

void print_listing(const std::vector<ListedProgram>& programs, bool as_json) {
  std::string text;
  Json list = Json::array();
  for (const ListedProgram& program : programs) {
    if (as_json) {
      list.push_back(json_of(program));
    } else {
      text += text_of(program);
    }
  }
  if (as_json) {
    text = Json{{"format", 1}, {"programs", list}}.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  print(text);
}

}  // namespace runner
