// Names of files.
#pragma once

#include <string>

namespace runner {

inline std::string base_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

inline std::string beside(const std::string& path, const std::string& name) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? name : path.substr(0, slash + 1) + name;
}

// The path without the last extension of its base name.
inline std::string without_extension(const std::string& path) {
  const std::string base = base_name(path);
  const size_t dot = base.rfind('.');
  return dot == std::string::npos ? path : path.substr(0, path.size() - (base.size() - dot));
}

inline bool ends_with(const std::string& path, const std::string& end) {
  return path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0;
}

}  // namespace runner
