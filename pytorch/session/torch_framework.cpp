#include "session/torch_framework.h"

#include "interrupts.h"
#include "observe/collective.h"

namespace teraio::pytorch {

engine::WaitInterrupt& TorchFramework::wait_interrupt() { return Interrupts::instance(); }

bool TorchFramework::is_interrupted() { return Interrupts::instance().handle_signals(); }

bool TorchFramework::wait_without_other_lock(const std::function<void()>& wait) {
  return Interrupts::instance().wait_for_lock(wait);
}

bool TorchFramework::wait_for_unpin() { return wait_for_a_collective(); }

}  // namespace teraio::pytorch
