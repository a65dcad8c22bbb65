#include "emulator/answer.h"

#include <algorithm>
#include <numeric>

namespace tailrace::emulator {
namespace {

constexpr const char* kFaultMessage = "the emulated engine failed as it was asked to";

}  // namespace

Answer::Answer(std::shared_ptr<net::Exchange> exchange, GenerationRequest request,
               std::vector<Choice> choices, AnswerWriter writer, MonoTime arrived)
    : exchange_(std::move(exchange)),
      request_(std::move(request)),
      choices_(std::move(choices)),
      writer_(std::move(writer)),
      arrived_(arrived),
      progress_(choices_.size()),
      rendered_(choices_.size(), 0) {
  for (const Choice& choice : choices_) total_ += choice.tokens;
}

bool Answer::take_token(std::size_t choice, MonoTime emulated) {
  ++progress_[choice].generated;
  progress_[choice].last_token = emulated;
  ++generated_;
  return fault_due();
}

bool Answer::fault_due() const {
  switch (request_.fault.kind) {
    case Fault::kDieBeforeFirstByte:
      return true;
    case Fault::kDieMidStream:
      return generated_ > std::max<std::int64_t>(1, total_ / 2);
    case Fault::kErrorInStream:
      return generated_ >= std::max<std::int64_t>(1, total_ / 2);
    default:
      return false;
  }
}

void Answer::render_pending(std::string& bytes) {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const std::int64_t from = rendered_[i];
    const std::int64_t until = progress_[i].generated;
    if (from == until) continue;
    const auto index = static_cast<std::int64_t>(i);
    if (from == 0) writer_.append_opening(bytes, index);
    writer_.append_tokens(bytes, index, choices_[i], from, until);
    rendered_[i] = until;
  }
}

void Answer::open_stream() {
  if (exchange_->begun()) return;
  exchange_->begin({200, "", {{"content-type", "text/event-stream; charset=utf-8"}}});
}

bool Answer::all_rendered() const {
  return std::accumulate(rendered_.begin(), rendered_.end(), std::int64_t{0}) == total_;
}

bool Answer::flush() {
  if (!request_.stream) {
    if (!all_generated()) return false;
    exchange_->respond({200, "", {{"content-type", "application/json"}}}, writer_.whole(choices_));
    return true;
  }
  if (generated_ == 0) return false;
  open_stream();
  // The end of the stream travels in the write of its last token.
  std::string bytes;
  if (exchange_->writable()) render_pending(bytes);
  if (all_rendered()) {
    if (request_.include_usage) writer_.append_usage(bytes, total_);
    AnswerWriter::append_done(bytes);
    exchange_->write(std::move(bytes));
    exchange_->finish();
    return true;
  }
  if (!bytes.empty()) exchange_->write(std::move(bytes));
  return false;
}

bool Answer::has_pending() const {
  return request_.stream &&
         std::accumulate(rendered_.begin(), rendered_.end(), std::int64_t{0}) < generated_;
}

void Answer::fail_as(const FaultPlan& fault) {
  if (fault.kind != Fault::kErrorInStream) {
    exchange_->abort();
  } else if (!request_.stream) {
    exchange_->respond({500, "", {{"content-type", "application/json"}}},
                       error_body(500, "InternalServerError", kFaultMessage));
  } else {
    open_stream();
    std::string bytes;
    render_pending(bytes);
    AnswerWriter::append_error(bytes, kFaultMessage);
    AnswerWriter::append_done(bytes);
    exchange_->write(std::move(bytes));
    exchange_->finish();
  }
}

}  // namespace tailrace::emulator
