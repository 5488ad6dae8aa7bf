"""The exact dual of support vector machines with the parameter nu, in which |b|_1 is limited."""
