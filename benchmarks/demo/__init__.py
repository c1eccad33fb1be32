"""Demo behind ``make demo``: one training run over MPI with dense and one with compressed gradients.

    mpirun -n 4 python -m benchmarks.demo

model.py and data.py define the task, exchange.py the two ways to average gradients, choices.py the
compression, and train.py the common training loop. report.py and plot.py show the results.
"""
