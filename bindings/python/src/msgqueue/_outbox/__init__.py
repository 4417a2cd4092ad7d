"""The tables of an outbox in a database of the program, and the steps of a collection.

A step is a generator that yields what a call of the driver or of the queue returned, and gets the value of it: in
`msgqueue.Outbox` the same object, in `msgqueue.aio.Outbox` what it is when it was awaited. So the steps stand once.
"""
