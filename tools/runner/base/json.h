// The JSON library, without what it would need of the C++ library beyond strings.
#pragma once

#define JSON_NO_IO 1
#include <nlohmann/json.hpp>
