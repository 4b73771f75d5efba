#include "tools/runner/app/open_app.h"

#include "tools/runner/base/process.h"
#include "tools/runner/engine/runtime.h"
#include "tools/runner/files/weight_cache.h"

namespace runner {
namespace {

// Leases the weight cache for programs, as asked for; by default, if the manifests prove that it is safe.
Result<bool> use_weight_cache(const OpenOptions& options, std::vector<CheckedFiles>& programs) {
  if (options.no_weight_cache) {
    return false;
  }
  std::vector<CacheUse> uses;
  for (const CheckedFiles& program : programs) {
    uses.push_back(program.cache_use);
  }
  auto leases = lease_weight_cache(uses, runtime_version());
  if (!leases.ok()) {
    return options.weight_cache ? Result<bool>(leases.take_status()) : Result<bool>(false);
  }
  for (size_t i = 0; i < programs.size(); ++i) {
    programs[i].lease = (*leases)[i];
  }
  return true;
}

}  // namespace

Result<App> open_app(const OpenOptions& options) {
  App app;
  OpenDataFiles open;
  app.chosen = TRY(choose_programs(options, open));
  for (const ChosenProgram& program : app.chosen.programs) {
    set_stage("checking the files of " + program.files.program);
    app.files.push_back(TRY(check_files(program.files, options.verify, open)));
  }
  app.weight_cache = TRY(use_weight_cache(options, app.files));
  return app;
}

Result<CheckedFiles> open_other_data(
    const App& app,
    const OpenOptions& options,
    size_t index,
    const std::vector<std::string>& data) {
  ProgramFiles files = app.chosen.programs[index].files;
  files.data = data;
  set_stage("checking the files of " + files.program);
  OpenDataFiles open;
  std::vector<CheckedFiles> checked;
  checked.push_back(TRY(check_files(files, options.verify, open)));
  if (app.weight_cache) {
    TRY(use_weight_cache(options, checked));
  }
  return std::move(checked.front());
}

}  // namespace runner
