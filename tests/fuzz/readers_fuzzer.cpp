// The readers under libFuzzer: `make fuzz`.
#include <cstdio>
#include <cstdlib>

#include "fuzz/reader_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string complaint = teraio::testing::complaint_about_readers(bytes, size);
  if (complaint.empty()) return 0;
  std::fprintf(stderr, "%s\n", complaint.c_str());
  std::abort();
}
