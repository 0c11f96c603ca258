#include "observe/op_pins.h"

#include "observe/observed_thread.h"
#include "op_error.h"
#include "storages/storage_swap.h"

namespace teraio::pytorch {

void order_this_stream(const ActiveSession& session, const OpInfo& info,
                       std::span<const engine::Use> uses) {
  if (!session.has_streams || !session.backend->place_of_this_thread().is_on_other_stream) return;
  const Status status =
      session.runtime->order_stream(session.backend->stream_of_this_thread(), uses);
  if (!status.ok()) throw_status(status, info.name);
}

void pin_all_permanently(runtime::Runtime& runtime, const std::vector<engine::Use>& uses,
                         const OpInfo& info) {
  for (const engine::Use& use : uses)
    if (const Status status = runtime.pin_permanently(use.tensor); !status.ok())
      throw_status(status, info.name);
}

bool pin_until_op_ends(ActiveSession& session, engine::LiveTensor* tensor) {
  ObservedThread& thread = this_thread();
  if (thread.op == nullptr) return false;
  if (thread.capture != nullptr) thread.capture->give_up();  // it misses what the kernel writes
  if (!is_complete(*tensor) || thread.has_pinned(tensor, true)) return true;
  const StorageReferenceGuard guard;
  if (const Status status = session.runtime->pin(tensor, /*is_write=*/true); !status.ok())
    throw_status(status, thread.op->name);
  thread.frame.nested_uses.push_back({tensor, true});
  order_this_stream(session, *thread.op, std::span(&thread.frame.nested_uses.back(), 1));
  return true;
}

}  // namespace teraio::pytorch
