#include "tune/support/chain_server.h"

#include "tailrace/tune/defaults.h"
#include "tailrace/tune/kalman.h"

namespace tailrace::tune::testing {

ChainServer ChainServer::qwen14b() {
  return {{.alpha_ms = 10.645377, .beta_ms = 0.041760195, .gamma_ms = 5.770509e-5}, 1024, 256, 256};
}

ChainServer ChainServer::llama8b() {
  return {{.alpha_ms = 6.49, .beta_ms = 0.0219, .gamma_ms = 4.96e-5}, 512, 128, 256};
}

ChainServer ChainServer::granite() {
  return {{.alpha_ms = 8, .beta_ms = 0.016, .gamma_ms = 0.0005}, 2048, 1024, 64};
}

queueing::ServiceLimits ChainServer::limits() const {
  return {.max_num_seqs = max_batch, .max_queue = kFilterQueuePerSequence * max_batch};
}

double ChainServer::saturation_rate(const queueing::IterationModel& m) const {
  return 1e3 / (m.beta_ms * (input + output) + m.gamma_ms * (output + 1) * (input + output / 2));
}

double ChainServer::rate_at(double rho) const {
  return rho * saturation_rate(truth);
}

Observation ChainServer::at(double rho, double time_s) const {
  queueing::ServiceModel model;
  model.mode = queueing::Mode::kChain;
  model.iteration = truth;
  model.limits = limits();
  Observation o;
  o.time_s = time_s;
  o.pod = std::string("a");
  o.rate_per_s = rate_at(rho);
  o.input_tokens = input;
  o.output_tokens = output;
  if (const auto z =
          kalman_prediction(model, queueing::Workload::of(*o.rate_per_s, input, output))) {
    o.ttft_ms = (*z)[0];
    o.itl_ms = (*z)[1];
  }
  return o;
}

std::vector<double> constant_load(double rho, std::size_t cycles) {
  return std::vector<double>(cycles, rho);
}

std::vector<double> ramp_load() {
  std::vector<double> rho(81);
  for (std::size_t k = 0; k < rho.size(); ++k) rho[k] = 0.02 + 0.68 * static_cast<double>(k) / 80;
  return rho;
}

std::vector<double> sawtooth_load() {
  std::vector<double> rho(80);
  for (std::size_t k = 0; k < rho.size(); ++k) {
    rho[k] = 0.1 + 0.5 * static_cast<double>(k % 10) / 9;
  }
  return rho;
}

}  // namespace tailrace::tune::testing
