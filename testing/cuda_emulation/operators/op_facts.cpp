#include "testing/cuda_emulation/operators/op_facts.h"

#include <memory>

namespace teraio::testing::emulated_cuda {
namespace {

bool are_aliases(const c10::AliasInfo* result, const c10::AliasInfo* argument) {
  if (result == nullptr || argument == nullptr) return false;
  for (const auto& set : result->afterSets())
    if (argument->beforeSets().count(set) > 0) return true;
  return false;
}

int32_t argument_of(const c10::FunctionSchema& schema, const c10::Argument& result) {
  int32_t found = -1;
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (are_aliases(result.alias_info(), schema.arguments()[i].alias_info()))
      found = static_cast<int32_t>(i);
  return found;
}

bool is_tensor_or_list(const c10::Argument& result) {
  const auto kind = result.type()->kind();
  if (kind != c10::TypeKind::ListType) return kind == c10::TypeKind::TensorType;
  const auto element = result.type()->castRaw<c10::ListType>()->getElementType();
  return element->kind() == c10::TypeKind::TensorType;
}

// Operators with out= may resize what they are given.
bool may_resize(const c10::FunctionSchema& schema) {
  return schema.overload_name().find("out") != std::string::npos ||
         schema.name().find("grad_input") != std::string::npos;
}

void note_results(const c10::FunctionSchema& schema, OpFacts& facts) {
  for (const c10::Argument& result : schema.returns()) {
    facts.argument_of_result.push_back(argument_of(schema, result));
    facts.makes_results |= facts.argument_of_result.back() < 0;
    facts.is_known_by_shape &= is_tensor_or_list(result);
  }
}

void note_generator(const c10::FunctionSchema& schema, OpFacts& facts) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (argument.type()->str().find("Generator") != std::string::npos)
      facts.generator_index = static_cast<int32_t>(i);
    if (argument.name() == "dropout_p") facts.dropout_index = static_cast<int32_t>(i);
  }
}

std::unique_ptr<OpFacts> find_facts(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  auto facts = std::make_unique<OpFacts>();
  facts->name = full_name(schema);
  note_results(schema, *facts);
  note_generator(schema, *facts);
  facts->is_random = facts->generator_index >= 0 || op.hasTag(at::Tag::nondeterministic_seeded);
  if (op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape) ||
      may_resize(schema))
    facts->is_known_by_shape = false;
  return facts;
}

}  // namespace

std::string full_name(const c10::FunctionSchema& schema) {
  const std::string& overload = schema.overload_name();
  return overload.empty() ? schema.name() : schema.name() + "." + overload;
}

OpFacts& facts_of(const c10::OperatorHandle& op) {
  static auto* all = new std::unordered_map<const void*, std::unique_ptr<OpFacts>>();
  static auto* mutex = new std::mutex();
  const std::lock_guard lock(*mutex);
  std::unique_ptr<OpFacts>& facts = (*all)[&op.schema()];
  if (facts == nullptr) facts = find_facts(op);
  return *facts;
}

}  // namespace teraio::testing::emulated_cuda
