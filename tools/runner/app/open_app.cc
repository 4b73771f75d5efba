#include "tools/runner/app/open_app.h"

#include "tools/runner/base/process.h"
#include "tools/runner/files/weight_cache.h"

namespace runner {
namespace {

// As asked for; by default, if the manifests prove that it is safe.
Result<bool> use_weight_cache(const OpenOptions& options, const std::vector<CacheUse>& programs) {
  if (options.no_weight_cache) {
    return false;
  }
  if (options.weight_cache) {
    TRY(check_weight_cache(programs));
    return true;
  }
  return lists_packed_weights(programs) && check_weight_cache(programs).ok();
}

}  // namespace

Result<App> open_app(const OpenOptions& options) {
  App app;
  app.chosen = TRY(choose_programs(options));
  OpenDataFiles open;
  std::vector<CacheUse> cache_uses;
  for (const ChosenProgram& program : app.chosen.programs) {
    set_stage("checking the files of " + program.files.program);
    app.files.push_back(TRY(check_files(program.files, options.verify, open)));
    cache_uses.push_back(app.files.back().cache_use);
  }
  app.weight_cache = TRY(use_weight_cache(options, cache_uses));
  return app;
}

Result<OtherData> open_other_data(
    const App& app,
    const OpenOptions& options,
    size_t index,
    const std::vector<std::string>& data,
    const std::vector<CacheUse>& others) {
  ProgramFiles files = app.chosen.programs[index].files;
  files.data = data;
  set_stage("checking the files of " + files.program);
  OpenDataFiles open;
  OtherData other;
  other.files = TRY(check_files(files, options.verify, open));
  std::vector<CacheUse> cache_uses = others;
  for (const CheckedFiles& own : app.files) {
    cache_uses.push_back(own.cache_use);
  }
  cache_uses.push_back(other.files.cache_use);
  other.weight_cache = app.weight_cache && TRY(use_weight_cache(options, cache_uses));
  return other;
}

}  // namespace runner
