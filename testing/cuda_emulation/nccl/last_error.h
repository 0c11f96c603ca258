// What ncclGetLastError() says: the last failure in this process, of a call or of work on a stream.
//
// Threads: any.
#pragma once

#include <string>

namespace teraio::testing::emulated_nccl {

void set_last_error(const std::string& text);
// The text stays until the calling thread asks again.
const char* last_error();

}  // namespace teraio::testing::emulated_nccl
