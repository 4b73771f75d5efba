#include "tools/runner/report.h"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

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

double mebibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

void print_json(const Report& report) {
  Json programs = Json::array();
  for (const ProgramReport& program : report.programs) {
    programs.push_back({
        {"program", program.program},
        {"data", program.data},
        {"method", program.method},
        {"load_ms", program.load_ms},
        {"memory_after_load", to_json(program.after_load)},
        {"run_ms", program.run_ms},
        {"memory_after_run", to_json(program.after_run)},
        {"outputs", program.outputs},
    });
  }
  const Json json = {
      {"format", 1},
      {"weight_cache", report.weight_cache},
      {"memory_at_start", to_json(report.at_start)},
      {"programs", programs},
  };
  // Paths may hold bytes that are no UTF-8.
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace);
  printf("%s\n", text.c_str());
}

void print_text(const Report& report) {
  for (const ProgramReport& program : report.programs) {
    printf(
        "%s: loaded in %.1f ms (then %.1f MiB resident), ran \"%s\" in %.2f ms (median of %zu; "
        "then %.1f MiB)\n",
        program.program.c_str(),
        program.load_ms,
        mebibytes(program.after_load.resident),
        program.method.c_str(),
        median(program.run_ms),
        program.run_ms.size(),
        mebibytes(program.after_run.resident));
  }
}

}  // namespace runner
