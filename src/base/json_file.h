// JSON files, plain or gzip: read whole, walked with errors that name file and field, written
// atomically.
//
// Reading a document takes no error handling between the fields: the first failure sticks to the
// document, later accesses return neutral values, and status() tells at the end.
//
//   JsonDocument document(path, "teraio-hardware/1");
//   hardware.name = document.root()["name"].text();
//   TERAIO_RETURN_IF_ERROR(document.status());   // "h.json: name: expected a string, found 7"
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace teraio {

class JsonDocument;

// A place in a document: a value and the way to it. Cheap to copy; refers to the node that it was
// reached from, so keep a parent in a named variable while its children are used.
class JsonNode {
 public:
  // A field that must exist; find() accepts that it does not (check with exists()).
  JsonNode operator[](const char* key) const;
  JsonNode find(const char* key) const;
  // Elements of an array that must be one; 0 after a failure.
  size_t size() const;
  JsonNode element(size_t index) const;

  bool exists() const { return value_ != nullptr; }
  int64_t non_negative_integer() const;
  int64_t positive_integer() const;
  double number() const;
  bool boolean() const;
  std::string text() const;

  // Records "<file>: <path>: <problem>" as the document's failure, unless there is one already.
  void fail(std::string_view problem) const;

 private:
  friend class JsonDocument;
  JsonNode(JsonDocument* document, const nlohmann::json* value, const JsonNode* parent,
           const char* key, size_t index)
      : document_(document), value_(value), parent_(parent), key_(key), index_(index) {}

  std::string path() const;
  void fail_expected(std::string_view expected) const;
  int64_t integer_from(int64_t smallest, std::string_view expected) const;

  JsonDocument* document_;
  const nlohmann::json* value_;  // null: not there
  const JsonNode* parent_;       // null: the root
  const char* key_;              // null: an element of an array
  size_t index_;
};

// One file, read by the constructor. Not copyable; outlives its nodes. One thread.
class JsonDocument {
 public:
  // Fails when the file cannot be read, is not JSON, or its "format" is not `format`.
  JsonDocument(const std::filesystem::path& path, std::string_view format);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  const JsonNode& root() const { return root_; }
  const Status& status() const { return status_; }

 private:
  friend class JsonNode;
  void fail(ErrorCode code, std::string_view problem);
  void parse(const std::string& text, std::string_view format);

  std::string file_;
  Status status_;
  nlohmann::json value_;
  JsonNode root_;
};

// The bytes of a file, decompressed when they are gzip. Refuses more than 4 GiB.
Result<std::string> read_text_file(const std::filesystem::path& path);

// Replaces `path` as a whole: readers see the old file or the new one. A link stays, and what is no
// file (a device, a pipe) is written to. Compressed when the name ends in ".gz". The same text
// gives the same bytes.
Status write_text_file(const std::filesystem::path& path, std::string_view text);

// `value` on one line per element of its top-level arrays, which keeps large files readable.
std::string to_json_text(const nlohmann::ordered_json& value);

}  // namespace teraio
