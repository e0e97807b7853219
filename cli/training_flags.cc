// Flags of the verbs that predict a training.
#include "cli/training_flags.h"

#include "cli/python.h"

namespace ebbtide::cli {

void AddTrainingFlags(CLI::App& verb, TrainingFlags& flags) {
  flags.request.torch = InstalledTorch();
  verb.option_defaults()->group("Training");
  verb.add_option(
          "--framework", flags.request.framework,
          "Whose runtime it runs in: pytorch (the one installed), pytorch-2.6 to pytorch-2.15, mxnet or tensorflow; "
          "default: that of the file, else pytorch")
      ->type_name("NAME");
  verb.add_option("--pool", flags.request.pool,
                  "MXNet's storage manager: naive (default) or round; TensorFlow's memory: growth "
                  "(default) or fixed, all of the device at once")
      ->type_name("NAME");
  verb.add_option(
          "--loop", flags.request.loop,
          "Whose loop: plain, or trainer, which lets go of the model's outputs before backward and of gradients "
          "behind the update; default: trainer for a Hugging Face configuration")
      ->type_name("NAME");
  verb.add_option("--zero-grad", flags.request.zero_grad,
                  "Where the loop drops gradients: start (default of a plain loop), before-backward or end")
      ->type_name("PLACE");
  verb.add_option("--iterations", flags.request.iterations, "Iterations to go through (default 3)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  verb.add_option("--alloc-conf", flags.request.alloc_conf,
                  "How PyTorch's allocator is set up, as in PYTORCH_ALLOC_CONF")
      ->type_name("TEXT");
  verb.add_option("--other-batch", flags.other_batches,
                  "With a graph file: a capture of the same step at another batch, from which all others follow; "
                  "may be given several times")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_option("--cublas-workspace", flags.request.cublas_workspace,
                  "What matrix products take beside their tensors: none (CUBLAS_WORKSPACE_CONFIG=:0:0), kept "
                  "(by each thread, for good) or per-call; default: as the framework has it")
      ->type_name("POLICY");
  verb.add_flag(
      "--cudnn-benchmark", flags.request.cudnn_benchmark,
      "The program sets torch.backends.cudnn.benchmark: engines are tried out, and then cached memory is given "
      "back");
}

void AddCudaModelFlags(CLI::App& verb, ModelFlags& flags) {
  AddModelFlags(verb, flags);
  flags.options.device = model::Device::kCuda;
  CLI::Option* device = verb.get_option("--device");
  std::erase(flags.choices, device);
  verb.remove_option(device);
}

}  // namespace ebbtide::cli
