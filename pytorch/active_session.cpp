#include "active_session.h"

#include <atomic>

namespace teraio::pytorch {
namespace {

std::atomic<ActiveSession*> active = nullptr;

}  // namespace

ActiveSession* active_session() { return active.load(std::memory_order_acquire); }

void set_active_session(ActiveSession* session) {
  active.store(session, std::memory_order_release);
}

}  // namespace teraio::pytorch
