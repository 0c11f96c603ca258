#include "storages/data_access_flag.h"

#include <utility>

namespace teraio::pytorch {
namespace {

// PyTorch 2.11 can set the flag but not clear it, and later versions drop the message with it. The
// private members are reached by explicit instantiation, which the language allows to name them.
template <auto ThrowFlag, auto CheckFlag>
struct FlagAccess {
  friend bool& throw_flag(c10::StorageImpl& storage) { return storage.*ThrowFlag; }
  friend bool& check_flag(c10::StorageImpl& storage) { return storage.*CheckFlag; }
};
bool& throw_flag(c10::StorageImpl& storage);
bool& check_flag(c10::StorageImpl& storage);
template struct FlagAccess<&c10::StorageImpl::throw_on_immutable_data_ptr_,
                           &c10::StorageImpl::has_mutable_data_ptr_check_>;

}  // namespace

void set_access_message(c10::StorageImpl& storage, std::string message) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(message));
}

void forbid_data_access(c10::StorageImpl& storage) {
  check_flag(storage) = true;  // without it, accesses for a change do not look at the other flag
  throw_flag(storage) = true;
}

void allow_data_access(c10::StorageImpl& storage) { throw_flag(storage) = false; }

}  // namespace teraio::pytorch
