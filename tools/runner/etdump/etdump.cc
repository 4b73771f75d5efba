// Records programs in ExecuTorch's ETDump format. A separate library, because it needs one that
// not every runtime has and that few apps need.

#include <cstdlib>

#include <executorch/devtools/etdump/etdump_flatcc.h>

#include "tools/runner/base/files.h"
#include "tools/runner/engine/runtime.h"

namespace runner {
namespace {

class EtdumpRecorder final : public Recorder {
 public:
  executorch::runtime::EventTracer* tracer() override { return &generator_; }

  Status write(const std::string& path) override {
    const executorch::etdump::ETDumpResult dump = generator_.get_etdump_data();
    if (dump.buf == nullptr || dump.size == 0) {
      return error(path + ": the runtime recorded nothing; it was built without event tracing.");
    }
    Status written = write_file(path, {{static_cast<const char*>(dump.buf), dump.size}});
    free(dump.buf);
    return written;
  }

 private:
  executorch::etdump::ETDumpGen generator_;
};

[[maybe_unused]] const bool is_set = [] {
  set_recorder([]() -> std::unique_ptr<Recorder> { return std::make_unique<EtdumpRecorder>(); });
  return true;
}();

}  // namespace
}  // namespace runner
