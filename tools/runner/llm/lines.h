// Lines of standard input, as they come.
#pragma once

#include <optional>
#include <string>

namespace runner {

class Lines {
 public:
  // The next one without its end; none: the input has ended. Ends the process with a sentence for one
  // that has no end.
  std::optional<std::string> next();

 private:
  std::string waiting_;
  bool has_ended_ = false;
};

}  // namespace runner
