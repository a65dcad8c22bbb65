// What do the API server's own envelopes say: a page of a list, a line of a watch, a refusal?
// Private to src/kubernetes.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes {

/// Reads one document at a time. What it returns by reference lives until the next.
class DocumentReader {
 public:
  DocumentReader();
  /// Errors: kDataLoss for what is no JSON object, or nests too deep.
  Result<simdjson::dom::object> read(std::string_view text);

 private:
  simdjson::dom::parser parser_;
};

/// A member that is there and has the type; otherwise nothing.
std::optional<simdjson::dom::object> member_object(const simdjson::dom::object& in,
                                                   std::string_view key);
std::optional<std::string_view> member_text(const simdjson::dom::object& in, std::string_view key);
std::optional<std::int64_t> member_int(const simdjson::dom::object& in, std::string_view key);

struct ListPage {
  std::vector<std::string> items;  ///< JSON texts
  std::string resource_version;
  std::string next;  ///< the `continue` token; "": the last page
};
Result<ListPage> read_list_page(std::string_view text);

struct WatchLine {
  std::string type;              ///< ADDED, MODIFIED, DELETED, BOOKMARK or ERROR
  std::string object;            ///< JSON text; "" for the latter two
  std::string resource_version;  ///< of the object; "" for ERROR
  int error_status = 0;          ///< of an ERROR
  std::string error_message;
};
Result<void> read_watch_line(std::string_view text, WatchLine& line);

/// The message of a Status document, made fit for a log; "" where there is none.
std::string status_message(std::string_view text);

/// What `parse` reads in the body of a good answer, or what is wrong with it.
template <class T>
Result<T> read_answer(const ApiRequest& request, const Result<ApiAnswer>& answer,
                      Result<T> (*parse)(std::string_view document)) {
  if (!answer) return fail(answer.error());
  if (!answer->ok()) return fail(error_of(request, *answer));
  auto read = parse(answer->body);
  if (!read) return fail(read.error().with_context(request.path));
  return read;
}

}  // namespace tailrace::kubernetes
