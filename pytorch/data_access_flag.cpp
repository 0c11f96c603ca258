#include "data_access_flag.h"

#include <utility>

namespace teraio::pytorch {
namespace {

// PyTorch 2.11 can set the flag but not clear it: 2.12 added clear_data_ptr_access_error_msg_. In
// 2.11 an explicit instantiation, which may name private members, gives access to the flag.
// set_data_ptr_noswap() then updates the state that PyTorch derives from it.
template <typename Storage>
concept HasClear = requires(Storage& storage) {
  storage.clear_data_ptr_access_error_msg_();
};

bool& throw_flag(c10::StorageImpl& storage);

#if TERAIO_TORCH_MINOR < 12
template <auto Member>
struct ThrowFlagAccess {
  friend bool& throw_flag_of(c10::StorageImpl& storage) { return storage.*Member; }
};
bool& throw_flag_of(c10::StorageImpl& storage);
template struct ThrowFlagAccess<&c10::StorageImpl::throw_on_immutable_data_ptr_>;
bool& throw_flag(c10::StorageImpl& storage) { return throw_flag_of(storage); }
#endif

template <typename Storage>
void clear(Storage& storage) {
  if constexpr (HasClear<Storage>) {
    storage.clear_data_ptr_access_error_msg_();
  } else {
    throw_flag(storage) = false;
    storage.set_data_ptr_noswap(std::move(storage._mutable_data_ptr_no_checks()));
  }
}

}  // namespace

void forbid_data_access(c10::StorageImpl& storage, std::string message) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(message));
}

void allow_data_access(c10::StorageImpl& storage) { clear(storage); }

}  // namespace teraio::pytorch
