"""Feed of weights: one writer publishes versions of a model's weights, and any number of readers follow.

    Publisher   a state -> patches from older versions, and anchors -> objects -> a record of the version
    Subscriber  records -> a route from its own version to the newest -> objects -> patches on its state

``record`` has the bytes, ``archive`` reads and writes them in a store, ``route`` chooses patches.
"""
