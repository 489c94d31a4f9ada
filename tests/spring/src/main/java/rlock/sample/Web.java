package rlock.sample;

import jakarta.servlet.http.HttpSession;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;

@RestController
class Web {
    private final Shipments shipments;

    Web(Shipments shipments) {
        this.shipments = shipments;
    }

    @PostMapping("/orders/{id}/ship")
    String ship(@PathVariable long id) {
        return shipments.ship(id) ? "shipped" : "shipped before";
    }

    @GetMapping("/orders/{id}/label")
    String label(@PathVariable long id) {
        return shipments.label(id);
    }

    /** The session is in Redis, and so is its count. */
    @GetMapping("/visits")
    String visits(HttpSession session) {
        int visits = session.getAttribute("visits") instanceof Integer before ? before + 1 : 1;
        session.setAttribute("visits", visits);
        return "" + visits;
    }
}
