/// One moment on both clocks, in milliseconds: wall time for what people and receivers say, and for waiting a clock that nobody sets and
/// that goes on while the machine sleeps.
package struct Moment: Sendable, Equatable {
    package var wall: Int64
    package var mono: Int64

    package init(wall: Int64, mono: Int64) {
        self.wall = wall
        self.mono = mono
    }
}
