// What holds for the readers of traces, hardware, plans and prices, whatever bytes they are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace teraio::testing {

// Reads the bytes as each kind of file. Empty when the readers keep their word: what they accept is
// valid and comes back from a file of its own, what they refuse is told by file and expectation.
// Otherwise what is wrong.
std::string complaint_about_readers(const uint8_t* bytes, size_t size);

}  // namespace teraio::testing
