#include "storages/forked_child.h"

#include <pthread.h>

#include <mutex>

#include "storages/active_session.h"

namespace teraio::pytorch {
namespace {

bool is_child = false;  // written in a new child, which has only one thread

void become_child() {
  is_child = active_session() != nullptr || is_child;
  set_active_session(nullptr);
}

}  // namespace

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, &become_child); });
}

bool is_forked_child() { return is_child; }

}  // namespace teraio::pytorch
