// Where is one answer on its way to its client?
//
// An Answer turns the tokens that its sequences have produced into bytes: events as they come for a
// stream, one body at the end otherwise. Tokens that a slow client cannot take yet are kept as a
// count, not as text, so a stalled reader costs no memory. Loop thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "emulator/wire.h"
#include "tailrace/core/time.h"
#include "tailrace/net/http_server.h"

namespace tailrace::emulator {

class Answer {
 public:
  Answer(std::shared_ptr<net::Exchange> exchange, GenerationRequest request,
         std::vector<Choice> choices, AnswerWriter writer, MonoTime arrived);

  struct Progress {
    std::int64_t generated = 0;
    MonoTime last_token;
  };
  /// Records one more token; true if the answer's fault, if any, is due with it.
  bool take_token(std::size_t choice, MonoTime emulated);

  /// Writes what the client can take. True when everything has been handed over and the answer
  /// ended.
  bool flush();
  /// Tokens wait because the client does not read: flush again when the exchange is writable.
  bool has_pending() const;

  /// Ends the answer as the fault says.
  void fail_as(const FaultPlan& fault);

  const GenerationRequest& request() const { return request_; }
  const std::vector<Choice>& choices() const { return choices_; }
  const Progress& progress(std::size_t choice) const { return progress_[choice]; }
  MonoTime arrived() const { return arrived_; }
  net::Exchange& exchange() { return *exchange_; }
  bool all_generated() const { return generated_ == total_; }
  std::int64_t generated() const { return generated_; }

  std::optional<MonoTime> admitted;     ///< first choice in the batch; set by the owner
  std::optional<MonoTime> first_token;  ///< of any choice; set by the owner
  bool queued_for_flush = false;  ///< the owner's mark, so that an answer is flushed once a turn

 private:
  bool fault_due() const;
  bool all_rendered() const;
  void open_stream();
  void render_pending(std::string& bytes);

  std::shared_ptr<net::Exchange> exchange_;
  GenerationRequest request_;
  std::vector<Choice> choices_;
  AnswerWriter writer_;
  MonoTime arrived_;
  std::vector<Progress> progress_;
  std::vector<std::int64_t> rendered_;
  std::int64_t generated_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace tailrace::emulator
