"""The demo behind ``make demo``: the same training over MPI with dense and with compressed gradients.

    mpirun -n 4 python -m benchmarks.demo

model.py and data.py are the task, exchange.py the two ways to the mean gradient, train.py the loop that both
share; report.py and plot.py show what came out.
"""
