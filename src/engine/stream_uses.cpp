#include "engine/stream_uses.h"

#include <utility>

#include "base/check.h"

namespace teraio::engine {

void StreamUses::record(void* stream, Tensors tensors) {
  uses_.push_back({device_.record_on(stream), std::move(tensors)});
}

StreamUses::Tensors StreamUses::take_passed() {
  Tensors passed;
  std::erase_if(uses_, [&](const Entry& entry) {
    if (!device_.has_passed(entry.end)) return false;
    passed.insert(passed.end(), entry.tensors.begin(), entry.tensors.end());
    return true;
  });
  return passed;
}

StreamUses::Tensors StreamUses::wait_for_oldest() {
  TERAIO_CHECK(!uses_.empty());
  const Entry oldest = std::move(uses_.front());
  uses_.pop_front();
  return device_.wait(oldest.end).ok() ? oldest.tensors : Tensors();
}

}  // namespace teraio::engine
