//! Samples of what was measured, in the order in which they were taken.

#[derive(Default)]
pub struct Figures {
    all: Vec<Figure>,
    /// What could not be measured, and why.
    pub left_out: Vec<String>,
}

pub struct Figure {
    id: String,
    pub unit: &'static str,
    samples: Vec<f64>,
}

impl Figures {
    pub fn add(&mut self, id: &str, unit: &'static str, sample: f64) {
        match self.all.iter_mut().find(|figure| figure.id == id) {
            Some(figure) => figure.samples.push(sample),
            None => self.all.push(Figure { id: id.to_owned(), unit, samples: vec![sample] }),
        }
    }

    pub fn get(&self, id: &str) -> Option<&Figure> {
        self.all.iter().find(|figure| figure.id == id)
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl Figure {
    pub fn median(&self) -> f64 {
        median(self.samples.clone())
    }

    pub fn highest(&self) -> f64 {
        self.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// How many times as good as the other figure this is, in each round: a rate is good if it is high, a cost if it is low.
    pub fn against(&self, other: &Self) -> Ratios {
        let is_rate = self.unit.ends_with("/s");
        let ratio = |(one, other): (&f64, &f64)| if is_rate { one / other } else { other / one };
        let ratios: Vec<_> = self.samples.iter().zip(&other.samples).map(ratio).collect();
        Ratios {
            lowest: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            highest: ratios.iter().copied().fold(0.0, f64::max),
            median: median(ratios),
        }
    }
}

/// Over the rounds in which both had their turn.
pub struct Ratios {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    if samples.len() % 2 == 1 { samples[middle] } else { f64::midpoint(samples[middle - 1], samples[middle]) }
}
