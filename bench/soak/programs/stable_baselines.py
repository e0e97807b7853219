"""Reinforcement learning of stable-baselines3: what the policy draws on the device goes to the environment on the host."""

from stable_baselines3 import A2C, DQN, PPO, SAC, TD3

for kind, environment, settings in ((PPO, "CartPole-v1", {"n_steps": 32, "batch_size": 16, "n_epochs": 2}), (A2C, "CartPole-v1", {}),
                                    (DQN, "CartPole-v1", {"learning_starts": 16}), (SAC, "Pendulum-v1", {"learning_starts": 16}),
                                    (TD3, "Pendulum-v1", {"learning_starts": 16})):
    kind("MlpPolicy", environment, device="cuda", seed=0, **settings).learn(64)
    print(kind.__name__)
