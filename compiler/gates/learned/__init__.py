"""Gates that learn when to open (Esteves, Galhardas, Veiga: SmartFlux, 2016).

A gated step has an input impact and an error bound. While it trains, everything runs, and each wave becomes an example: the
impacts, and the error that the step would have, had it not run since its last virtual execution. A random forest learns from the
examples which steps would exceed their bounds, and decides from then on.
"""
