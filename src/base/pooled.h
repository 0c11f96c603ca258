// Pooled: memory for objects that are made and deleted all the time, often on different threads,
// where malloc and free leave their fast paths.
//
//     struct LiveTensor : Pooled<LiveTensor> { ... };
//
// Freed memory is reused for objects of the same class, and never returns to the system.
// The address sanitizer gets each object from malloc.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <mutex>
#include <new>

namespace teraio {

// `Object` is not derived from.
template <typename Object>
class Pooled {
 public:
#ifndef __SANITIZE_ADDRESS__
  static void* operator new(size_t /*size_bytes*/) { return pool().take(); }
  static void operator delete(void* memory) { pool().give_back(memory); }
#endif

 private:
  class Pool {
   public:
    void* take() {
      const std::lock_guard lock(mutex_);
      if (free_ == nullptr) add_objects();
      Free* taken = free_;
      free_ = taken->next;
      return taken;
    }

    void give_back(void* memory) {
      const std::lock_guard lock(mutex_);
      free_ = new (memory) Free{free_};
    }

   private:
    struct Free {
      Free* next;
    };
    static constexpr size_t kObjectsAtOnce = 64;

    void add_objects() {
      auto* memory = static_cast<std::byte*>(::operator new(kObjectsAtOnce * sizeof(Object)));
      for (size_t i = 0; i < kObjectsAtOnce; ++i)
        free_ = new (memory + i * sizeof(Object)) Free{free_};
    }

    std::mutex mutex_;
    Free* free_ = nullptr;
  };

  static Pool& pool() {
    static auto* instance = new Pool();  // objects may outlive static ones
    return *instance;
  }
};

}  // namespace teraio
