#include "testing/cuda_emulation/nccl/last_error.h"

#include <mutex>

namespace teraio::testing::emulated_nccl {
namespace {

// Never destroyed: threads of communicators may outlive static objects.
struct LastError {
  std::mutex mutex;
  std::string text;
};
LastError& instance() {
  static auto* made = new LastError();
  return *made;
}

}  // namespace

void set_last_error(const std::string& text) {
  const std::lock_guard lock(instance().mutex);
  instance().text = text;
}

const char* last_error() {
  thread_local std::string text;
  const std::lock_guard lock(instance().mutex);
  text = instance().text;
  return text.c_str();
}

}  // namespace teraio::testing::emulated_nccl
