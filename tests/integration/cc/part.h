#pragma once
#include <string>

// Number of objects that were registered before main.
int& counter();

std::string part_of(const std::string& word);
