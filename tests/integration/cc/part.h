#pragma once
#include <string>

// How many objects were registered before main.
int& counter();

std::string part_of(const std::string& word);
