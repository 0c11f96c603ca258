#include "op_info.h"

#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace teraio::pytorch {
namespace {

bool starts_with_any(const std::string& name, std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char* prefix) { return name.rfind(prefix, 0) == 0; });
}

// PyTorch's own operators: their schemas are known to tell what they change.
bool is_of_pytorch(const c10::FunctionSchema& schema) {
  return starts_with_any(schema.name(), {"aten::", "prim::", "prims::"});
}

bool has_marks(const c10::FunctionSchema& schema) {
  return std::any_of(
      schema.arguments().begin(), schema.arguments().end(),
      [](const c10::Argument& argument) { return argument.alias_info() != nullptr; });
}

// Returns whether the schema is evidence of what the op changes. One that PyTorch has inferred from
// a C++ function never marks an argument. An op without marks that returns nothing has some effect
// that its schema does not tell.
bool is_evidence(const c10::FunctionSchema& schema) {
  if (is_of_pytorch(schema) || has_marks(schema)) return true;
  return schema.aliasAnalysis() != c10::AliasAnalysisKind::CONSERVATIVE &&
         !schema.returns().empty();
}

// Returns whether the schema tells that the op changes the argument. Batch norms change their
// running statistics, which their schemas do not declare.
bool is_marked(const c10::Argument& argument) {
  if (argument.name() == "running_mean" || argument.name() == "running_var") return true;
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool returns_object(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& result) {
                       return result.type()->kind() == c10::TypeKind::ClassType ||
                              result.type()->kind() == c10::TypeKind::AnyClassType;
                     });
}

bool takes_generator(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const c10::Argument& argument) {
                       return argument.type()->str().find("Generator") != std::string::npos;
                     });
}

// As the dispatcher chooses: an op composed of others may have a kernel for some devices.
OpInfo::Kernels kernels_of(const c10::OperatorHandle& op, c10::DispatchKey device,
                           c10::DispatchKey autocast) {
  return {op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
              !op.hasKernelForDispatchKey(device),
          op.hasKernelForDispatchKey(autocast)};
}

std::unique_ptr<OpInfo> read_schema(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  auto info = std::make_unique<OpInfo>();
  info->name = schema.name();
  if (!schema.overload_name().empty()) info->name += "." + schema.overload_name();
  info->name_hash = XXH3_64bits(info->name.data(), info->name.size());
  info->argument_count = schema.arguments().size();
  info->return_count = schema.returns().size();
  const bool is_honest = is_evidence(schema);
  bool has_tensor_argument = false;
  for (const c10::Argument& argument : schema.arguments()) {
    info->is_write.push_back(!is_honest || is_marked(argument));
    has_tensor_argument |= argument.type()->str().find("Tensor") != std::string::npos;
  }
  // The result of a collective may arrive after the op has returned, and the caller of a factory
  // often fills in the result, unless that is random.
  info->leaves_bytes_undefined = starts_with_any(info->name, {"aten::empty", "aten::new_empty"});
  info->is_random = op.hasTag(at::Tag::nondeterministic_seeded) || takes_generator(schema);
  info->completes_results = (has_tensor_argument || info->is_random) &&
                            !info->leaves_bytes_undefined &&
                            !starts_with_any(info->name, {"c10d::", "_c10d_functional"});
  info->waits = starts_with_any(info->name, {"_c10d_functional::wait_tensor"});
  info->is_collective = starts_with_any(info->name, {"c10d::"});
  info->is_checked = is_honest && !is_of_pytorch(schema) && !info->is_collective;
  info->keeps_arguments = !info->is_collective && returns_object(schema);
  info->is_list_op =
      starts_with_any(info->name, {"aten::_foreach_", "aten::_fused_adam", "aten::_fused_sgd",
                                   "aten::_fused_adagrad", "aten::_amp_foreach_"});
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (schema.arguments()[i].name() == "dropout_p") info->dropout_argument = i;
  // What else ops of other libraries do is unknown.
  info->has_known_effects = starts_with_any(info->name, {"aten::"}) && !info->is_list_op;
  info->is_composed = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  info->cpu_kernels = kernels_of(op, c10::DispatchKey::CPU, c10::DispatchKey::AutocastCPU);
  info->gpu_kernels = kernels_of(op, c10::DispatchKey::CUDA, c10::DispatchKey::AutocastCUDA);
  return info;
}

// The OpInfos of all threads, by the address of the schema. When an operator is deregistered,
// another one may get its address, so the look-up table is cleared. The OpInfos are not freed,
// because a running op or a recording may refer to them.
class OpInfos final : public c10::OpRegistrationListener {
 public:
  const OpInfo& get(const c10::OperatorHandle& op) {
    const std::lock_guard lock(mutex_);
    const OpInfo*& known = by_schema_[&op.schema()];
    if (known != nullptr) return *known;
    known = all_.emplace_back(read_schema(op)).get();
    known->has_python_kernel = python_kernels_.contains(known->name);
    return *known;
  }

  void note_python_kernel(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (!python_kernels_.insert(name).second) return;
    for (const auto& info : all_)
      if (info->name == name) info->has_python_kernel = true;
  }

  // Changes when results of earlier look-ups become invalid.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle&) override {
    const std::lock_guard lock(mutex_);
    by_schema_.clear();
    epoch_.fetch_add(1, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const c10::FunctionSchema*, const OpInfo*> by_schema_;
  std::vector<std::unique_ptr<OpInfo>> all_;
  std::unordered_set<std::string> python_kernels_;  // the operators that have any
  std::atomic<uint64_t> epoch_ = 1;
};

OpInfos& op_infos() {
  static OpInfos* instance = [] {
    auto infos = std::make_unique<OpInfos>();
    OpInfos* listening = infos.get();
    // Never freed: it stays registered as long as the dispatcher lives.
    new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().addRegistrationListener(std::move(infos)));
    return listening;
  }();
  return *instance;
}

struct RecentOp {
  const c10::FunctionSchema* schema;
  uint64_t epoch;
  const OpInfo* info;
};

// A thread's cache of look-ups, by address. Most programs use fewer ops than it holds. The type has
// neither a constructor nor a destructor, because thread-local access to one that has costs more
// than the look-up.
constexpr size_t kRecentOps = 256;
thread_local RecentOp recent_ops[kRecentOps];

size_t recent_place(const c10::FunctionSchema* schema) {
  const auto address = reinterpret_cast<uintptr_t>(schema);
  return (address / alignof(c10::FunctionSchema) * 0x9e3779b97f4a7c15) >> 56;
}

}  // namespace

const OpInfo& op_info(const c10::OperatorHandle& op) {
  static OpInfos& infos = op_infos();
  const c10::FunctionSchema& schema = op.schema();
  const uint64_t epoch = infos.epoch();
  RecentOp& recent = recent_ops[recent_place(&schema)];
  if (recent.schema != &schema || recent.epoch != epoch) recent = {&schema, epoch, &infos.get(op)};
  return *recent.info;
}

void note_python_kernel(const std::string& name) { op_infos().note_python_kernel(name); }

}  // namespace teraio::pytorch
