// A list, page after page.
#include <iterator>

#include "kubernetes/api_core.h"
#include "kubernetes/documents.h"

namespace tailrace::kubernetes {
namespace {

constexpr int kBeginningsMax = 5;
constexpr int kPagesMax = 10'000;

class ListCall final : public ApiCall {
 public:
  ListCall(std::shared_ptr<ApiCore> core, std::string path,
           UniqueFunction<void(Result<ListedObjects>)> done)
      : core_(std::move(core)), path_(std::move(path)), done_(std::move(done)) {
    next_page("");
  }

 private:
  void next_page(const std::string& token) {
    ApiRequest request;
    request.path = with_query(path_, "limit", std::to_string(core_->config.page_objects));
    if (!token.empty()) request.path = with_query(std::move(request.path), "continue", token);
    const ApiRequest copy = request;
    page_ = start_send(core_, std::move(request),
                       [this, copy, first = token.empty()](const Result<ApiAnswer>& answer) {
                         if (!answer) return finish(fail(answer.error()));
                         if (answer->status == 410 && !first && ++beginnings_ < kBeginningsMax)
                           return restart();
                         if (!answer->ok()) return finish(fail(error_of(copy, *answer)));
                         take(copy, answer->body);
                       });
  }

  /// The server has forgotten where we were: what came so far would not fit what is to come.
  void restart() {
    listed_ = {};
    pages_ = 0;
    next_page("");
  }

  void take(const ApiRequest& request, std::string_view body) {
    auto page = read_list_page(body);
    if (!page) return finish(fail(page.error().with_context(spoken(request))));
    if (listed_.items.size() + page->items.size() > core_->config.list_objects_max) {
      return finish(
          fail(ErrorCode::kResourceExhausted, spoken(request) + ": more than " +
                                                  std::to_string(core_->config.list_objects_max) +
                                                  " objects; narrow the namespaces or labels"));
    }
    // A page may be empty and yet not the last: its objects may all have been filtered out.
    if (!page->next.empty() && ++pages_ >= kPagesMax) {
      return finish(fail(ErrorCode::kDataLoss, spoken(request) + ": the list does not end"));
    }
    listed_.resource_version = std::move(page->resource_version);
    listed_.items.insert(listed_.items.end(), std::make_move_iterator(page->items.begin()),
                         std::make_move_iterator(page->items.end()));
    if (page->next.empty()) return finish(std::move(listed_));
    next_page(page->next);
  }

  void finish(Result<ListedObjects> result) {
    auto done = std::move(done_);
    done(std::move(result));
  }

  std::shared_ptr<ApiCore> core_;
  const std::string path_;
  UniqueFunction<void(Result<ListedObjects>)> done_;
  ListedObjects listed_;
  int beginnings_ = 0, pages_ = 0;
  std::unique_ptr<ApiCall> page_;
};

}  // namespace

std::unique_ptr<ApiCall> start_list(std::shared_ptr<ApiCore> core, std::string path,
                                    UniqueFunction<void(Result<ListedObjects>)> done) {
  return std::make_unique<ListCall>(std::move(core), std::move(path), std::move(done));
}

}  // namespace tailrace::kubernetes
