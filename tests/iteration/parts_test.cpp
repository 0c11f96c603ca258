#include "iteration/parts.h"

#include <gtest/gtest.h>

namespace teraio::iteration {
namespace {

// An op of each letter: f and g are those of a forward pass, o makes data, b is of a backward pass,
// and u changes a parameter.
Profile profile_of(const std::string& letters) {
  Profile profile;
  profile.trace.name = "iteration";
  profile.trace.tensors.push_back({.kind = trace::TensorKind::kParameter});
  for (const char letter : letters) {
    trace::Op& op = profile.trace.ops.emplace_back();
    if (letter == 'u') op.writes = {0};
    profile.signatures.push_back({static_cast<uint64_t>(letter)});
    OpOrigin& origin = profile.origins.emplace_back();
    origin.is_backward = letter == 'b';
    if (letter == 'f' || letter == 'g') origin = {"net.up", "model.py:31"};
  }
  return profile;
}

TEST(Parts, AreCountedInTheirOrder) {
  const auto expect = [](const char* letters, const char* backward_and_updates, int forward) {
    EXPECT_EQ(
        parts_of(profile_of(letters)),
        std::to_string(forward) + " forward from net.up (model.py:31), " + backward_and_updates);
  };
  expect("ofgobbuou", "1 backward, 1 update", 1);
  expect("fgofgofgbb", "1 backward, 0 updates", 3);  // as many as first ops
  expect("fgbfgbuufgbu", "3 backward, 2 updates", 3);
  expect("fgbububu", "1 backward, 1 update", 1);  // an optimizer per parameter
  EXPECT_EQ(parts_of(profile_of("oo")), "iteration") << "nothing is known";
}

}  // namespace
}  // namespace teraio::iteration
