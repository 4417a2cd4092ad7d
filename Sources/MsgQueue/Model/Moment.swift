/// A time on both clocks, in milliseconds: the wall clock, for times from users and receivers, and a monotonic clock that is never set and
/// runs during suspend, for delays.
package struct Moment: Sendable, Equatable {
    package var wall: Int64
    package var mono: Int64

    package init(wall: Int64, mono: Int64) {
        self.wall = wall
        self.mono = mono
    }

    /// Converts a monotonic time to wall time; a past time becomes the current time.
    func wall(at mono: Int64) -> Int64 { wall.addingClamped(max(0, mono.subtractingClamped(self.mono))) }
}
