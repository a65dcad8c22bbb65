#include "tailrace/kubernetes/lease.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "kubernetes/lease_document.h"

namespace tailrace::kubernetes {
namespace {

constexpr double kLeaseMax_s = 3600;
/// The duration that a holder writes when it gives the lease back, as client-go does.
constexpr double kGivenBack_s = 1;

/// One step of the election is under way at a time: read, create or update; then a pause of
/// retry_s.
class Elector final : public LeaderElector {
 public:
  Elector(net::EventLoop& loop, Api& api, const Calendar& calendar, LeaseConfig config,
          UniqueFunction<void(const Leadership&)> on_change)
      : loop_(loop),
        api_(api),
        calendar_(calendar),
        config_(std::move(config)),
        path_("/apis/coordination.k8s.io/v1/namespaces/" + config_.ns + "/leases"),
        on_change_(std::move(on_change)) {
    state_.reason = "the lease was not read yet";
    expired_.reason = "the lease was not renewed in time";
    read();
  }

  const Leadership& now() const override {
    return state_.leads && loop_.now() >= leads_until_ ? expired_ : state_;
  }

  void release(UniqueFunction<void()> done) override {
    // A claim that may not lead yet is left to run out: before that nobody else may lead either.
    const bool ours = held_ && loop_.now() >= held_->may_lead_from;
    stand_down("we gave the lease back");
    step_.reset();
    pause_.reset();
    if (!ours) {
      pause_ = loop_.after(Duration{0}, std::move(done));
      return;
    }
    // An update of ours that is still on its way may have changed the version: look again first.
    step_ = api_.send(request("GET", path_ + "/" + config_.name, ""),
                      [this, done = std::move(done)](const Result<ApiAnswer>& answer) mutable {
                        give_back(answer, std::move(done));
                      });
  }

 private:
  /// The term that we are in, or are about to be in.
  struct Held {
    std::string document;  ///< the Lease as the server answered it
    std::string acquire_time;
    std::uint64_t transitions = 0;
    MonoTime may_lead_from{};  ///< and not before
  };
  /// A version of the Lease that is not ours, since when by our clock.
  struct Seen {
    std::string version;
    MonoTime since{};
  };

  ApiRequest request(std::string method, std::string path, std::string body) const {
    ApiRequest made;
    made.method = std::move(method);
    made.path = std::move(path);
    made.body = std::move(body);
    made.timeout_s = config_.renew_s / 2;
    return made;
  }

  // ---- Looking

  void read() {
    step_ = api_.send(request("GET", path_ + "/" + config_.name, ""),
                      [this](const Result<ApiAnswer>& answer) { looked(answer); });
  }

  void looked(const Result<ApiAnswer>& answer) {
    if (!answer) return failed(answer.error().message);
    if (answer->status == 404) return create();
    if (!answer->ok()) return failed(error_of(request("GET", path_, ""), *answer).message);
    const auto lease = parse_lease(answer->body);
    if (!lease) return failed(lease.error().message);
    terms_ = std::max(terms_, lease->transitions + 1);
    if (held_) return looked_while_held(*lease, answer->body);
    if (!seen_ || seen_->version != lease->resource_version) {
      seen_ = Seen{lease->resource_version, loop_.now()};
    }
    if (loop_.now() - seen_->since >= from_seconds(waiting_s(*lease))) {
      return take(answer->body, lease->transitions + 1);
    }
    know(lease->holder, held_by(lease->holder));
    again();
  }

  /// For how long the lease must not change before we may take it.
  double waiting_s(const LeaseRecord& lease) const {
    // By a term of our own nobody else leads.
    if (lease.holder == config_.identity) return 0;
    // Given back by its holder. One that was emptied in another way may still have a leader.
    if (lease.holder.empty() && lease.duration_s == kGivenBack_s) return 0;
    if (lease.duration_s <= kGivenBack_s) return config_.lease_s;
    return std::min(lease.duration_s, kLeaseMax_s);
  }

  /// Our update met another version: is the Lease still ours?
  void looked_while_held(const LeaseRecord& lease, const std::string& document) {
    if (lease.holder != config_.identity || lease.acquire_time != held_->acquire_time) {
      lost(lease.holder);
      return again();
    }
    held_->document = document;
    renew();
  }

  static std::string held_by(const std::string& holder) {
    return (holder.empty() ? "nobody" : holder) + " holds the lease";
  }

  // ---- Claiming

  LeaseClaim claim(std::uint64_t transitions, const std::string& acquired) const {
    const std::string now = micro_time(calendar_.unix_s());
    return {config_.identity, config_.lease_s, transitions, acquired.empty() ? now : acquired, now};
  }

  /// There is no Lease. It may have been deleted under a leader that will notice only when it
  /// renews: we lead when its time is over in any case.
  void create() {
    if (held_) {
      lost("");
      return again();
    }
    const LeaseClaim wanted = claim(terms_, "");
    const MonoTime sent = loop_.now();
    seen_.reset();
    nobody_until_ = sent + from_seconds(config_.lease_s);
    step_ = api_.send(
        request("POST", path_, new_lease(config_.ns, config_.name, wanted)),
        [this, sent, wanted](const Result<ApiAnswer>& answer) { settled(sent, wanted, answer); });
  }

  void take(const std::string& document, std::uint64_t transitions) {
    const LeaseClaim wanted = claim(transitions, "");
    const MonoTime sent = loop_.now();
    update(document, wanted, [this, sent, wanted](const Result<ApiAnswer>& answer) {
      settled(sent, wanted, answer);
    });
  }

  void settled(MonoTime sent, const LeaseClaim& wanted, const Result<ApiAnswer>& answer) {
    if (!answer) return failed(answer.error().message);
    if (answer->status == 409 || answer->status == 404) {  // another was quicker
      return again();
    }
    if (!answer->ok()) return failed(error_of(request("PUT", path_, ""), *answer).message);
    held_ =
        Held{answer->body, wanted.acquire_time, wanted.transitions, std::max(sent, nobody_until_)};
    terms_ = std::max(terms_, wanted.transitions + 1);
    renewed(sent);
    again();
  }

  // ---- Holding

  void renew() {
    const LeaseClaim wanted = claim(held_->transitions, held_->acquire_time);
    const MonoTime sent = loop_.now();
    update(held_->document, wanted, [this, sent](const Result<ApiAnswer>& answer) {
      if (!answer) return failed(answer.error().message);
      if (answer->status == 409) return read();
      if (answer->status == 404) {
        lost("");
        return again();
      }
      if (!answer->ok()) return failed(error_of(request("PUT", path_, ""), *answer).message);
      held_->document = answer->body;
      renewed(sent);
      again();
    });
  }

  void update(const std::string& document, const LeaseClaim& wanted,
              UniqueFunction<void(const Result<ApiAnswer>&)> done) {
    step_ = api_.send(
        request("PUT", path_ + "/" + config_.name, changed_lease(document, wanted)),
        [done = std::move(done)](const Result<ApiAnswer>& answer) mutable { done(answer); });
  }

  /// The server has taken what was sent at `sent`. Others count from when they saw it, which is
  /// later than that.
  void renewed(MonoTime sent) {
    const MonoTime until = sent + from_seconds(config_.renew_s);
    if (loop_.now() >= until) return stand_down("the server was too slow to renew the lease");
    leads_until_ = until;
    last_failure_.clear();
    if (sent < held_->may_lead_from) {
      know("", fmt::format("there was no lease; we lead when a leader of before must have stopped, "
                           "{:.0f} s from now",
                           std::ceil(to_seconds(held_->may_lead_from - loop_.now()))));
    } else if (!state_.leads) {
      change({true, config_.identity, held_->transitions + 1, "we hold the lease"});
    }
    deadline_ = loop_.at(until, [this] {
      stand_down(fmt::format("the lease could not be renewed for {} s: {}", config_.renew_s,
                             last_failure_.empty() ? "no answer" : last_failure_));
      again();
    });
  }

  // ---- Ending and going on

  void failed(const std::string& why) {
    last_failure_ = why;
    if (!held_) know("", why);
    again();
  }

  void lost(const std::string& holder) {
    end_term();
    if (holder.empty()) return change({false, "", terms_, "the lease was deleted"});
    change({false, holder, terms_, held_by(holder)});
  }

  void stand_down(const std::string& why) {
    const bool was_under_way = held_.has_value();
    end_term();
    if (was_under_way) change({false, "", terms_, why});
  }

  void end_term() {
    held_.reset();
    seen_.reset();
    deadline_.reset();
  }

  /// We do not lead; `holder` does, or nobody knows.
  void know(const std::string& holder, const std::string& reason) {
    if (state_.leads) return;
    change({false, holder, terms_, reason});
  }

  void change(Leadership next) {
    if (!next.leads) next.generation = terms_;
    const bool news = next.leads != state_.leads || next.holder != state_.holder;
    state_ = std::move(next);
    expired_.generation = state_.generation;
    // Told by the loop, so that a handler finds everything settled.
    if (news) {
      loop_.post([weak = std::weak_ptr<Elector*>(self_), told = state_] {
        if (const auto self = weak.lock()) (*self)->on_change_(told);
      });
    }
  }

  void again() {
    step_.reset();
    pause_ = loop_.after(from_seconds(config_.retry_s), [this] { held_ ? renew() : read(); });
  }

  void give_back(const Result<ApiAnswer>& answer, UniqueFunction<void()> done) {
    const auto lease = answer && answer->ok() ? parse_lease(answer->body)
                                              : Result<LeaseRecord>(fail(ErrorCode::kNotFound, ""));
    if (!lease || lease->holder != config_.identity) return done();
    LeaseClaim nobody = claim(lease->transitions, lease->acquire_time);
    nobody.holder.clear();
    nobody.lease_s = kGivenBack_s;
    update(answer->body, nobody,
           [done = std::move(done)](const Result<ApiAnswer>&) mutable { done(); });
  }

  net::EventLoop& loop_;
  Api& api_;
  const Calendar& calendar_;
  const LeaseConfig config_;
  const std::string path_;
  UniqueFunction<void(const Leadership&)> on_change_;

  Leadership state_, expired_;
  std::optional<Held> held_;
  std::optional<Seen> seen_;
  MonoTime leads_until_{};
  MonoTime nobody_until_{};  ///< since we found no Lease
  std::uint64_t terms_ = 0;  ///< of office that we know of
  std::string last_failure_;
  std::unique_ptr<ApiCall> step_;
  std::unique_ptr<net::Timer> pause_, deadline_;
  std::shared_ptr<Elector*> self_ = std::make_shared<Elector*>(this);
};

}  // namespace

Result<void> LeaseConfig::check() const {
  const auto wrong = [](std::string what) {
    return fail(ErrorCode::kInvalidArgument, std::move(what));
  };
  if (ns.empty()) return wrong("lease: no namespace; name the one that we run in");
  if (name.empty()) return wrong("lease: no name; leave out the key for tailrace-autoscaler");
  if (identity.empty()) return wrong("lease: no identity; use the pod's name");
  const bool ordered = retry_s > 0 && renew_s > retry_s && lease_s > renew_s;
  if (!ordered || lease_s > kLeaseMax_s || lease_s != std::floor(lease_s)) {
    return wrong(
        fmt::format("lease: lease_s {} > renew_s {} > retry_s {} > 0 must hold, lease_s "
                    "whole and at most {}; the usual ones are 15, 10 and 2",
                    lease_s, renew_s, retry_s, kLeaseMax_s));
  }
  return {};
}

std::unique_ptr<LeaderElector> LeaderElector::make(
    net::EventLoop& loop, Api& api, const Calendar& calendar, LeaseConfig config,
    UniqueFunction<void(const Leadership&)> on_change) {
  return std::make_unique<Elector>(loop, api, calendar, std::move(config), std::move(on_change));
}

}  // namespace tailrace::kubernetes
